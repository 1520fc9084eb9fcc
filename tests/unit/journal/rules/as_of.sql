-- by version
-- dialect: postgres
SELECT * FROM depts FOR VERSION AS OF 7;
SELECT * FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.version_number <= 7 AND c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.version_number <= 7 AND n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- Spark's own spelling, and an alias
-- dialect: spark
SELECT d.name FROM depts VERSION AS OF 7 d;
SELECT d.name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.version_number <= CAST(7 AS BIGINT) AND c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.version_number <= CAST(7 AS BIGINT) AND n.deptno = c.deptno AND n.version_number > c.version_number)) d;

-- a parameter, bound as often as it is used
-- dialect: spark
SELECT name FROM depts VERSION AS OF ? WHERE deptno = ?;
SELECT name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.version_number <= CAST(? AS BIGINT) AND c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.version_number <= CAST(? AS BIGINT) AND n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts WHERE deptno = ?;

-- with an archive
-- dialect: postgres
-- with: archive
SELECT name FROM depts FOR VERSION AS OF 7;
SELECT name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.version_number <= 7 AND c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.version_number <= 7 AND n.deptno = c.deptno AND n.version_number > c.version_number) UNION ALL SELECT c.deptno, c.name FROM depts_archive AS c WHERE c.version_number <= 7 AND c.subsequent_version_number > 7) AS depts;

-- by time, where versions are times
-- dialect: postgres
-- with: timestamp
SELECT name FROM depts FOR TIMESTAMP AS OF '2026-01-31 12:00:00';
SELECT name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.version_number <= '2026-01-31 12:00:00' AND c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.version_number <= '2026-01-31 12:00:00' AND n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;
