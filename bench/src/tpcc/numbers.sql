-- The number of each client's last transaction. Each client has a row. Pages are filled only to a tenth, so that an
-- updated row finds room in its page.
CREATE TABLE tpcc_numbers (client integer PRIMARY KEY, number bigint NOT NULL) WITH (fillfactor = 10);
CREATE FUNCTION tpcc_number(of_client integer, next_number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tpcc_numbers SET number = next_number WHERE client = of_client;
END $$;
