-- Finds a customer of a district: by number, or the middle one of all with the same last name.
CREATE FUNCTION tpcc_customer(w integer, d integer, c integer, last_name text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN last_name IS NULL THEN c ELSE (
        SELECT ids[(cardinality(ids) + 1) / 2]
        FROM (SELECT array_agg(c_id ORDER BY c_first) AS ids FROM customer
              WHERE c_w_id = w AND c_d_id = d AND c_last = last_name) AS named) END
$$;

-- The items of an order are sorted, so that two orders lock rows of stock in the same order, and cannot deadlock.
CREATE FUNCTION tpcc_new_order(w integer, d integer, c integer, items integer[], supplies integer[], quantities integer[])
RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    discount numeric; warehouse_tax numeric; district_tax numeric;
    o integer; price numeric; district_info char(24); total numeric := 0;
BEGIN
    SELECT c_discount, w_tax INTO discount, warehouse_tax
    FROM warehouse, customer WHERE w_id = w AND c_w_id = w AND c_d_id = d AND c_id = c;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d
    RETURNING d_next_o_id - 1, d_tax INTO o, district_tax;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (o, d, w, c, now(), cardinality(items), (w = ALL (supplies))::integer);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (o, d, w);
    FOR i IN 1 .. cardinality(items) LOOP
        SELECT i_price INTO price FROM item WHERE i_id = items[i];
        IF NOT FOUND THEN
            RAISE EXCEPTION 'item % does not exist', items[i] USING ERRCODE = 'TPCC1';
        END IF;
        UPDATE stock SET
            s_quantity = s_quantity - quantities[i] + CASE WHEN s_quantity > quantities[i] + 9 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + quantities[i],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (supplies[i] <> w)::integer
        WHERE s_i_id = items[i] AND s_w_id = supplies[i]
        RETURNING CASE d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
            WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
            WHEN 9 THEN s_dist_09 ELSE s_dist_10 END INTO district_info;
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
            ol_dist_info)
        VALUES (o, d, w, i, items[i], supplies[i], quantities[i], price * quantities[i], district_info);
        total := total + price * quantities[i];
    END LOOP;
    RETURN total * (1 - discount) * (1 + warehouse_tax + district_tax);
END $$;

CREATE FUNCTION tpcc_payment(w integer, d integer, c_w integer, c_d integer, c integer, last_name text, amount numeric)
RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    customer_id integer; names text; district_name text; balance numeric;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w RETURNING w_name INTO names;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d RETURNING d_name INTO district_name;
    customer_id := tpcc_customer(c_w, c_d, c, last_name);
    UPDATE customer SET
        c_balance = c_balance - amount,
        c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC'
            THEN left(format('%s %s %s %s %s %s', c_id, c_d_id, c_w_id, d, w, amount) || c_data, 500) ELSE c_data END
    WHERE c_w_id = c_w AND c_d_id = c_d AND c_id = customer_id RETURNING c_balance INTO balance;
    INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (c_d, c_w, customer_id, d, w, now(), amount, names || '    ' || district_name);
    RETURN balance;
END $$;

CREATE FUNCTION tpcc_order_status(w integer, d integer, c integer, last_name text)
RETURNS TABLE (item integer, quantity smallint, amount numeric) LANGUAGE plpgsql STABLE AS $$
DECLARE
    customer_id integer := tpcc_customer(w, d, c, last_name);
    o integer;
BEGIN
    SELECT o_id INTO o FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = customer_id ORDER BY o_id DESC LIMIT 1;
    RETURN QUERY SELECT ol_i_id, ol_quantity, ol_amount FROM order_line
        WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
END $$;

CREATE FUNCTION tpcc_delivery(w integer, carrier integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    o integer; c integer; total numeric; delivered integer := 0;
BEGIN
    FOR d IN 1 .. (SELECT max(d_id) FROM district WHERE d_w_id = w) LOOP
        DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = (
            SELECT no_o_id FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1
            FOR UPDATE SKIP LOCKED)
        RETURNING no_o_id INTO o;
        CONTINUE WHEN NOT FOUND;
        UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = w AND o_d_id = d AND o_id = o RETURNING o_c_id INTO c;
        UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
        SELECT sum(ol_amount) INTO total FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
        UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = w AND c_d_id = d AND c_id = c;
        delivered := delivered + 1;
    END LOOP;
    RETURN delivered;
END $$;

-- Counts the items of a district's last twenty orders whose stock is low.
CREATE FUNCTION tpcc_stock_level(w integer, d integer, threshold integer) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    next_order integer; low bigint;
BEGIN
    SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = w AND d_id = d;
    SELECT count(DISTINCT s_i_id) INTO low FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = w
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next_order - 20 AND ol_o_id < next_order AND s_quantity < threshold;
    RETURN low;
END $$;
