-- YCSB's table: ten fields of a hundred characters.
CREATE TABLE usertable (
    ycsb_key bigint NOT NULL, field0 text NOT NULL, field1 text NOT NULL, field2 text NOT NULL, field3 text NOT NULL,
    field4 text NOT NULL, field5 text NOT NULL, field6 text NOT NULL, field7 text NOT NULL, field8 text NOT NULL,
    field9 text NOT NULL
);
