-- The tables that CH-benCHmark adds to TPC-C: a supplier for each of 10,000 classes of stock, and a nation for each
-- character that a customer's state can begin with (the characters' codes are the keys).
CREATE TABLE region (r_regionkey integer PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152) NOT NULL);

CREATE TABLE nation (
    n_nationkey integer PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey integer NOT NULL, n_comment varchar(152) NOT NULL
);

CREATE TABLE supplier (
    su_suppkey integer PRIMARY KEY, su_name char(25) NOT NULL, su_address varchar(40) NOT NULL,
    su_nationkey integer NOT NULL, su_phone char(15) NOT NULL, su_acctbal numeric(12,2) NOT NULL,
    su_comment varchar(101) NOT NULL
);

CREATE INDEX ON nation (n_regionkey);
CREATE INDEX ON supplier (su_nationkey);
-- Indexes by which the queries join lines with stock, and stock with suppliers.
CREATE INDEX ON order_line (ol_i_id, ol_supply_w_id);
CREATE INDEX ON stock (mod(s_w_id * s_i_id, 10000));
