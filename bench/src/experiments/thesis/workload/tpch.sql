-- The nine transactions of the thesis' Figure A.1, which are those of an early version of AnKer's paper. Each copies
-- values from some rows into others. All have the same parameters, so that the client can call them in the same way.

CREATE FUNCTION tpch_update_1(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lineitem AS target SET l_returnflag = source.l_returnflag
    FROM lineitem AS source
    WHERE target.l_orderkey = to_order AND target.l_linenumber = to_line
        AND source.l_orderkey = from_order AND source.l_linenumber = from_line;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_2(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lineitem AS target SET l_linestatus = source.l_linestatus, l_discount = source.l_discount
    FROM lineitem AS source
    WHERE target.l_orderkey = to_order AND target.l_linenumber = to_line
        AND source.l_orderkey = from_order AND source.l_linenumber = from_line;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_3(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lineitem AS target SET l_extendedprice = source.l_extendedprice, l_shipdate = source.l_shipdate
    FROM lineitem AS source
    WHERE target.l_orderkey = to_order AND target.l_linenumber = to_line
        AND source.l_orderkey = from_order AND source.l_linenumber = from_line;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_4(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE orders AS target SET o_orderpriority = source.o_orderpriority, o_orderstatus = source.o_orderstatus
    FROM orders AS source
    WHERE target.o_orderkey = to_order AND source.o_orderkey = from_order;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_5(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE orders AS target SET o_orderpriority = source.o_orderpriority
    FROM orders AS source
    WHERE target.o_orderkey = to_order AND source.o_orderkey = from_order;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_6(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE orders AS target SET o_totalprice = source.o_totalprice
    FROM orders AS source
    WHERE target.o_orderkey = to_order AND source.o_orderkey = from_order;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_7(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lineitem AS target SET l_extendedprice = source.l_extendedprice
    FROM lineitem AS source
    WHERE target.l_orderkey = to_order AND target.l_linenumber = to_line
        AND source.l_orderkey = from_order AND source.l_linenumber = from_line;
    ASSERT FOUND;
    UPDATE orders AS target SET o_orderstatus = source.o_orderstatus
    FROM orders AS source
    WHERE target.o_orderkey = to_order AND source.o_orderkey = from_order;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_8(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE part AS target SET p_brand = source.p_brand, p_retailprice = source.p_retailprice
    FROM part AS source
    WHERE target.p_partkey = to_part AND source.p_partkey = from_part;
    ASSERT FOUND;
END $$;

CREATE FUNCTION tpch_update_9(to_order bigint, to_line integer, to_part integer, from_order bigint, from_line integer,
    from_part integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lineitem AS target SET l_returnflag = source.l_returnflag
    FROM lineitem AS source
    WHERE target.l_orderkey = to_order AND target.l_linenumber = to_line
        AND source.l_orderkey = from_order AND source.l_linenumber = from_line;
    ASSERT FOUND;
    UPDATE orders AS target SET o_totalprice = source.o_totalprice
    FROM orders AS source
    WHERE target.o_orderkey = to_order AND source.o_orderkey = from_order;
    ASSERT FOUND;
    UPDATE part AS target SET p_retailprice = source.p_retailprice
    FROM part AS source
    WHERE target.p_partkey = to_part AND source.p_partkey = from_part;
    ASSERT FOUND;
END $$;
