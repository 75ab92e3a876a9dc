-- The tables that the documents speak about, in a database of their own.
CREATE TABLE order_line (id bigint PRIMARY KEY, district integer NOT NULL, amount numeric(8,2) NOT NULL);
INSERT INTO order_line SELECT i, i % 10, (i % 1000) / 100.0 FROM generate_series(1, 20000) i;
CREATE TABLE "table" (id integer PRIMARY KEY);
CREATE SCHEMA schema;
CREATE TABLE schema."table" (id integer PRIMARY KEY);
CREATE SCHEMA shop;
CREATE TABLE shop.customer (id integer PRIMARY KEY);
CREATE TABLE shop.history (sold date);
CREATE TABLE shop.item (id integer PRIMARY KEY);
CREATE UNLOGGED TABLE shop.sessions (id integer PRIMARY KEY);
ANALYZE;
