-- refused: ONLY
-- dialect: postgres
SELECT * FROM ONLY depts;

-- refused: TABLESAMPLE
-- dialect: postgres
SELECT * FROM depts TABLESAMPLE SYSTEM (10);

-- refused: RETURNING
-- dialect: postgres
DELETE FROM depts RETURNING *;

-- refused: DELETE in WITH
-- dialect: postgres
WITH x AS (DELETE FROM depts RETURNING *) SELECT * FROM x;

-- refused: INSERT in WITH
-- dialect: postgres
WITH x AS (INSERT INTO other SELECT * FROM depts) SELECT 1;

-- refused: FOR UPDATE
-- dialect: postgres
SELECT * FROM depts FOR UPDATE;

-- refused: FOR SHARE
-- dialect: postgres
SELECT * FROM depts FOR SHARE;

-- refused: SELECT INTO
-- dialect: postgres
SELECT * INTO x FROM depts;

-- refused: TRUNCATE
-- dialect: postgres
TRUNCATE depts;

-- refused: COPY
-- dialect: postgres
COPY depts TO STDOUT;

-- refused: COPY
-- dialect: postgres
COPY (SELECT * FROM depts) TO STDOUT;

-- refused: LOCK TABLE
-- dialect: postgres
LOCK TABLE depts;

-- refused: CREATE TABLE
-- dialect: postgres
CREATE TABLE x AS SELECT * FROM depts;

-- refused: CREATE INDEX
-- dialect: postgres
CREATE INDEX i ON depts (name);

-- refused: CREATE VIEW
-- dialect: postgres
CREATE VIEW depts AS SELECT 1;

-- refused: GRANT
-- dialect: postgres
GRANT SELECT ON depts TO bob;

-- refused: DROP TABLE
-- dialect: postgres
DROP TABLE depts;

-- refused: ALTER TABLE
-- dialect: postgres
ALTER TABLE depts ADD c INT;

-- refused: EXPLAIN
-- dialect: postgres
EXPLAIN ANALYZE DELETE FROM depts;

-- refused: PREPARE
-- dialect: postgres
PREPARE p AS SELECT * FROM depts;

-- refused: DO
-- dialect: postgres
DO $$ BEGIN DELETE FROM depts; END $$;

-- refused: DEFAULT
-- dialect: postgres
UPDATE depts SET name = DEFAULT;

-- refused: SET (…) = (SELECT …)
-- dialect: postgres
UPDATE depts SET (deptno, name) = (SELECT * FROM other);

-- refused: SET (…) = (SELECT …)
-- dialect: postgres
UPDATE depts SET (deptno, name) = (SELECT o.* FROM other AS o);

-- refused: SET (…) = (SELECT …)
-- dialect: postgres
UPDATE depts SET (deptno, name) = (SELECT DISTINCT ON (s.k) s.a, s.b FROM src AS s WHERE s.k = depts.deptno);

-- refused: SET (…) = (SELECT …)
-- dialect: spark
UPDATE depts SET (deptno, name) = (SELECT first(s.a), first(s.b) FROM src AS s WHERE s.k = depts.deptno);

-- refused: MAX(name)
-- dialect: postgres
UPDATE depts SET name = max(name);

-- refused: DEFAULT VALUES
-- dialect: postgres
INSERT INTO depts DEFAULT VALUES;

-- refused: ;
-- dialect: postgres
SELECT * FROM depts; DELETE FROM depts;

-- refused: TABLE
-- dialect: postgres
TABLE depts;

-- refused: TABLE depts
-- dialect: postgres
SELECT * FROM (TABLE depts) AS x;

-- refused: WITH depts_journal
-- dialect: postgres
WITH depts_journal AS (SELECT 1) SELECT * FROM depts;

-- refused: FROM depts
-- dialect: postgres
SELECT * FROM depts(1);

-- refused: U&"
-- dialect: postgres
SELECT * FROM U&"d\0065pts";

-- refused: ON CONSTRAINT
-- dialect: postgres
INSERT INTO depts VALUES (1, 'a') ON CONFLICT ON CONSTRAINT c DO NOTHING;

-- refused: ON CONFLICT (name)
-- dialect: postgres
INSERT INTO depts VALUES (1, 'a') ON CONFLICT (name) DO NOTHING;

-- refused: WITH depts
-- dialect: postgres
WITH depts AS (SELECT 1) DELETE FROM depts;

-- refused: depts
-- dialect: postgres
SELECT * FROM depts, hr.depts;

-- refused: INSERT OVERWRITE
-- dialect: spark
INSERT OVERWRITE depts SELECT 1, 'a';

-- refused: BY NAME
-- dialect: spark
INSERT INTO depts BY NAME SELECT 1 AS deptno;

-- refused: PARTITION
-- dialect: spark
INSERT INTO depts PARTITION (deptno = 1) SELECT 'x';

-- refused: CACHE TABLE
-- dialect: spark
CACHE TABLE depts;

-- refused: ANALYZE TABLE
-- dialect: spark
ANALYZE TABLE depts COMPUTE STATISTICS;

-- refused: EXECUTE IMMEDIATE
-- dialect: spark
EXECUTE IMMEDIATE 'SELECT 1';

-- refused: IDENTIFIER
-- dialect: spark
SELECT * FROM IDENTIFIER('depts');

-- refused: IDENTIFIER
-- dialect: spark
SELECT * FROM IDENTIFIER(:t);

-- refused: DESCRIBE
-- dialect: spark
DESCRIBE depts;

-- refused: TABLE
-- dialect: spark
TABLE depts;

-- refused: TABLE depts
-- dialect: spark
SELECT * FROM (TABLE depts);

-- refused: STREAM depts
-- dialect: spark
SELECT * FROM STREAM depts;

-- refused: PIVOT
-- dialect: spark
SELECT * FROM depts PIVOT (max(name) FOR deptno IN (1, 2));

-- refused: EXPLODE
-- dialect: spark
UPDATE depts SET name = explode(array('a'));

-- refused: RAND
-- dialect: spark
INSERT INTO depts SELECT rand(), 'x';

-- refused: LIMIT
-- dialect: spark
INSERT INTO depts SELECT a, b FROM src LIMIT 3;

-- refused: TIMESTAMP AS OF
-- dialect: spark
SELECT * FROM depts TIMESTAMP AS OF '2026-01-01';

-- refused: AS OF
-- dialect: spark
SELECT * FROM depts VERSION AS OF 1 + 1;

-- refused: AS OF
-- dialect: spark
DELETE FROM depts VERSION AS OF 3;

-- refused: DEFAULT
-- dialect: spark
INSERT INTO depts VALUES (1, DEFAULT);

-- refused: \
-- dialect: spark
UPDATE depts SET name = 'x' -- all \
 WHERE deptno = 1;

-- refused: lakemend_version_marker
-- dialect: spark
SELECT lakemend_version_marker FROM depts;

-- refused: PIVOT
-- dialect: duckdb
PIVOT depts ON name;

-- refused: IN depts
-- dialect: duckdb
SELECT 1 IN depts;

-- refused: memory.
-- dialect: duckdb
SELECT * FROM memory.main.depts;

-- refused: WITH RECURSIVE
-- dialect: duckdb
WITH RECURSIVE a AS (SELECT * FROM depts), depts AS (SELECT 1) SELECT * FROM a;

-- refused: INSERT OR
-- dialect: duckdb
INSERT OR REPLACE INTO depts VALUES (1, 'x');

-- refused: DELETE
-- dialect: spark
DELETE depts WHERE deptno = 1;

-- refused: INSERT … TABLE
-- dialect: spark
INSERT INTO depts TABLE src;

-- refused: AS OF
-- dialect: postgres
CREATE VIEW v AS SELECT name FROM depts FOR VERSION AS OF 3;

-- refused: REGEXP_SPLIT_TO_TABLE
-- dialect: postgres
UPDATE depts SET name = regexp_split_to_table('a,b', ',') || 'x';

-- refused: JSONB_OBJECT_KEYS
-- dialect: postgres
MERGE INTO depts t USING emps s ON t.deptno = s.deptno WHEN MATCHED THEN UPDATE SET name = jsonb_object_keys('{}');
