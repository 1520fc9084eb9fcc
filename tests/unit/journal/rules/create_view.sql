-- a view over a journaled table
-- dialect: postgres
CREATE VIEW v AS SELECT name FROM depts;
CREATE VIEW v AS SELECT name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- a view of an earlier version reads the archive
-- dialect: postgres
-- with: archive
CREATE VIEW v AS SELECT name FROM depts FOR VERSION AS OF 3;
CREATE VIEW v AS SELECT name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.version_number <= 3 AND c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.version_number <= 3 AND n.deptno = c.deptno AND n.version_number > c.version_number) UNION ALL SELECT c.deptno, c.name FROM depts_archive AS c WHERE c.version_number <= 3 AND c.subsequent_version_number > 3) AS depts;
