-- Every client leaves the number of its last transaction here: a row for each client, far from the others' rows.
CREATE TABLE tpcc_numbers (client integer PRIMARY KEY, number bigint NOT NULL) WITH (fillfactor = 10);
CREATE FUNCTION tpcc_number(of_client integer, next_number bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tpcc_numbers SET number = next_number WHERE client = of_client;
END $$;
