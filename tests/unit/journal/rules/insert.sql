-- values
-- dialect: postgres
INSERT INTO depts VALUES (1, 'a'), (2, DEFAULT);
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) VALUES (1, 'a', :version, NULL), (2, DEFAULT, :version, NULL);

-- values in Spark
-- dialect: spark
INSERT INTO depts VALUES (1, 'a');
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT s.deptno, s.name, :version, NULL FROM (VALUES (1, 'a')) AS s (deptno, name);

-- a column list
-- dialect: postgres
INSERT INTO depts (name, deptno) SELECT a, b FROM src WHERE b > 3;
INSERT INTO depts_journal (name, deptno, version_number, subsequent_version_number) SELECT a, b, :version, NULL FROM src WHERE b > 3;

-- a query of several parts
-- dialect: postgres
INSERT INTO depts SELECT a, b FROM src UNION SELECT b, a FROM src;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT s.deptno, s.name, :version, NULL FROM (SELECT a, b FROM src UNION SELECT b, a FROM src) AS s (deptno, name);

-- WITH before INSERT goes into the query
-- dialect: postgres
WITH s AS (SELECT 1 AS a, 'x' AS b) INSERT INTO depts SELECT a, b FROM s;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) WITH s AS (SELECT 1 AS a, 'x' AS b) SELECT a, b, :version, NULL FROM s;

-- values below WITH are a query, and have the types of their columns
-- dialect: postgres
WITH s AS (SELECT 1 AS a) INSERT INTO depts VALUES ((SELECT a FROM s), NULL);
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) WITH s AS (SELECT 1 AS a) VALUES (CAST((SELECT a FROM s) AS INT), CAST(NULL AS VARCHAR), :version, CAST(NULL AS BIGINT));

-- rows that are compared with each other
-- dialect: postgres
INSERT INTO depts SELECT DISTINCT a, b FROM src;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT DISTINCT a, b, :version, CAST(NULL AS BIGINT) FROM src;

-- parameters keep their order
-- dialect: postgres
INSERT INTO depts (name, deptno) VALUES (%s, %s);
INSERT INTO depts_journal (name, deptno, version_number, subsequent_version_number) VALUES (%s, %s, :version, NULL);

-- into another table, out of a journaled one
-- dialect: postgres
INSERT INTO other SELECT name FROM depts;
INSERT INTO other SELECT name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;
