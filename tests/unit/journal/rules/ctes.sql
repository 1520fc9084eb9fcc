-- a query of WITH hides the table, but not from itself
-- dialect: postgres
WITH depts AS (SELECT * FROM depts WHERE deptno > 3) SELECT * FROM depts;
WITH depts AS (SELECT * FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts WHERE deptno > 3) SELECT * FROM depts;

-- a later query of WITH sees it hidden
-- dialect: postgres
WITH depts AS (SELECT 1 AS x), t AS (SELECT x FROM depts) SELECT * FROM t;
WITH depts AS (SELECT 1 AS x), t AS (SELECT x FROM depts) SELECT * FROM t;

-- the name below is another one
-- dialect: postgres
SELECT * FROM (WITH depts AS (SELECT 1 AS x) SELECT x FROM depts) AS a, depts;
SELECT * FROM (WITH depts AS (SELECT 1 AS x) SELECT x FROM depts) AS a, (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- a recursive query means itself
-- dialect: postgres
WITH RECURSIVE depts AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM depts WHERE n < 3) SELECT * FROM depts;
WITH RECURSIVE depts AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM depts WHERE n < 3) SELECT * FROM depts;

-- recursion over the table
-- dialect: postgres
WITH RECURSIVE r AS (SELECT deptno FROM depts UNION ALL SELECT r.deptno + 1 FROM r JOIN depts d ON d.deptno = r.deptno) SELECT * FROM r;
WITH RECURSIVE r AS (SELECT deptno FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts UNION ALL SELECT r.deptno + 1 FROM r JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) d ON d.deptno = r.deptno) SELECT * FROM r;
