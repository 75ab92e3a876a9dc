-- engine: at least 37
--
-- TRANSACTIONS
--
-- A session sees its own rows, savepoints come and go, and each statement or
-- transaction has its snapshot. Sessions beside each other are tested elsewhere.
--

CREATE TABLE account (id integer PRIMARY KEY, owner text, balance numeric(10,2));
INSERT INTO account SELECT i, 'owner ' || i % 3, i * 100 FROM generate_series(1, 9) i;
SELECT anker.mirror('account');
SELECT anker.wait_for_mirror('account');

-- committed changes are seen at once, every kind of them
SELECT count(*), sum(balance) FROM account;
INSERT INTO account VALUES (10, 'new', 1000);
SELECT count(*), sum(balance) FROM account;
UPDATE account SET balance = balance + 0.01 WHERE id = 10;
SELECT count(*), sum(balance) FROM account;
UPDATE account SET id = 11 WHERE id = 10;
SELECT id, balance FROM account WHERE id > 9 ORDER BY id;
DELETE FROM account WHERE id = 11;
SELECT count(*), sum(balance) FROM account;
INSERT INTO account VALUES (1, 'twice', 0) ON CONFLICT (id) DO UPDATE SET owner = 'upserted';
SELECT owner FROM account WHERE id = 1;
INSERT INTO account VALUES (1, 'twice', 0) ON CONFLICT DO NOTHING;
MERGE INTO account USING (VALUES (1, 5), (12, 6)) v(id, n) ON account.id = v.id
  WHEN MATCHED THEN UPDATE SET balance = n WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'merged', v.n);
SELECT id, owner, balance FROM account WHERE id IN (1, 12) ORDER BY id;
DELETE FROM account WHERE id = 12;
UPDATE account SET owner = 'owner 1', balance = 100 WHERE id = 1;

-- COPY
COPY account FROM STDIN;
20	copied	20
21	\N	\N
\.
SELECT id, owner, balance FROM account WHERE id >= 20 ORDER BY id;
DELETE FROM account WHERE id >= 20;

-- an error leaves nothing behind
INSERT INTO account VALUES (30, 'x', 1), (1, 'x', 1);
SELECT count(*), sum(balance) FROM account;

-- own changes, before they are committed
BEGIN;
SELECT sum(balance) FROM account;
UPDATE account SET balance = 0 WHERE id > 5;
SELECT sum(balance) FROM account;
SELECT owner, count(*) FROM account GROUP BY owner ORDER BY owner;
ROLLBACK;
SELECT sum(balance) FROM account;

-- savepoints
BEGIN;
INSERT INTO account VALUES (40, 'outer', 40);
SAVEPOINT a;
INSERT INTO account VALUES (41, 'a', 41);
SAVEPOINT b;
DELETE FROM account;
SELECT count(*) FROM account;
ROLLBACK TO b;
SELECT count(*) FROM account WHERE id >= 40;
RELEASE a;
COMMIT;
SELECT id, owner FROM account WHERE id >= 40 ORDER BY id;
BEGIN;
SAVEPOINT a;
DELETE FROM account WHERE id = 41;
ROLLBACK TO a;
DELETE FROM account WHERE id = 40;
COMMIT;
SELECT id, owner FROM account WHERE id >= 40 ORDER BY id;
DELETE FROM account WHERE id >= 40;

-- an aborted transaction stays aborted, and the next one is well
BEGIN;
SELECT count(*) FROM account;
SELECT 1 / 0;
SELECT count(*) FROM account;
ROLLBACK;
SELECT count(*) FROM account;

-- an error caught by a savepoint
BEGIN;
SAVEPOINT s;
SELECT sum(balance / (id - id)) FROM account;
ROLLBACK TO s;
SELECT count(*) FROM account;
COMMIT;

-- isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(balance) FROM account;
SELECT count(*), sum(balance) FROM account WHERE id < 5;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(balance) FROM account;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*), sum(balance) FROM account;
COMMIT;
BEGIN READ ONLY;
SELECT count(*), sum(balance) FROM account;
DELETE FROM account;
ROLLBACK;

-- an exported snapshot, imported by its own session's next transaction, is gone by then;
-- while it lives the session that exported it goes on
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT pg_export_snapshot() IS NOT NULL;
SELECT count(*) FROM account;
COMMIT;

-- two phases
BEGIN;
UPDATE account SET balance = balance + 1;
PREPARE TRANSACTION 'raise';
SELECT sum(balance) FROM account;
COMMIT PREPARED 'raise';
SELECT sum(balance) FROM account;
BEGIN;
DELETE FROM account;
PREPARE TRANSACTION 'clear';
SELECT count(*) FROM account;
ROLLBACK PREPARED 'clear';
SELECT count(*) FROM account;

-- COMMIT AND CHAIN
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO account VALUES (50, 'chained', 1);
COMMIT AND CHAIN;
SHOW transaction_isolation;
SELECT count(*) FROM account;
COMMIT;
DELETE FROM account WHERE id = 50;

-- several statements in one message
SELECT count(*) FROM account \; UPDATE account SET balance = balance + 1 \; SELECT sum(balance) FROM account;
SELECT sum(balance) FROM account;

-- commits within procedures
CREATE PROCEDURE add_accounts() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 60..62 LOOP
        INSERT INTO account VALUES (i, 'procedure', i);
        RAISE NOTICE '% before', (SELECT count(*) FROM account WHERE owner = 'procedure');
        COMMIT;
        RAISE NOTICE '% after', (SELECT count(*) FROM account WHERE owner = 'procedure');
    END LOOP;
    DELETE FROM account WHERE id = 60;
    ROLLBACK;
END $$;
CALL add_accounts();
SELECT id FROM account WHERE owner = 'procedure' ORDER BY id;

-- exceptions in PL/pgSQL are subtransactions
DO $$
BEGIN
    BEGIN
        DELETE FROM account;
        RAISE NOTICE '% left', (SELECT count(*) FROM account);
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        RAISE NOTICE '% back', (SELECT count(*) FROM account);
    END;
END $$;
SELECT count(*) FROM account;

-- triggers, foreign keys and generated values write rows that are followed, too
CREATE TABLE history (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account integer REFERENCES account ON UPDATE CASCADE ON DELETE CASCADE,
    balance numeric(10,2),
    doubled numeric(12,2) GENERATED ALWAYS AS (balance * 2) STORED
);
SELECT anker.mirror('history');
SELECT anker.wait_for_mirror('history');
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (account, balance) VALUES (NEW.id, NEW.balance);
    RETURN NEW;
END $$;
CREATE TRIGGER note AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION note();
UPDATE account SET balance = balance + 1 WHERE id < 4;
SELECT account, balance, doubled FROM history ORDER BY id;
SELECT sum(doubled) FROM history;
ALTER TABLE account DISABLE TRIGGER note;
UPDATE account SET id = 70 WHERE id = 2;
SELECT account FROM history ORDER BY account;
DELETE FROM account WHERE id = 70;
SELECT count(*), max(account) FROM history;
SELECT count(*) FROM account JOIN history ON account.id = account;

-- heap and mirror hold the same rows
SELECT * FROM anker.verify('account');
SELECT * FROM anker.verify('history');
