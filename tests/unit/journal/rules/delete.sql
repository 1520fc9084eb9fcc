-- a mark whose subsequent version is its own
-- dialect: postgres
DELETE FROM depts WHERE deptno = 5;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT depts.deptno, depts.name, :version, :version FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts WHERE deptno = 5;

-- without a schema the mark has the key
-- dialect: postgres
-- with: none
DELETE FROM depts;
INSERT INTO depts_journal (deptno, version_number, subsequent_version_number) SELECT depts.deptno, :version, :version FROM (SELECT c.* FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- USING: each row once
-- dialect: postgres
DELETE FROM depts USING src WHERE src.b = depts.deptno;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT lakemend_row.deptno, lakemend_row.name, :version, :version FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS lakemend_row WHERE EXISTS (SELECT 1 FROM (SELECT depts.deptno AS deptno FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts, src WHERE src.b = depts.deptno) AS m WHERE m.deptno = lakemend_row.deptno);
