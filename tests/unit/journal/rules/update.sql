-- SET sees the row as it was
-- dialect: postgres
UPDATE depts SET name = upper(name) WHERE deptno = 5;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT depts.deptno, upper(name), :version, NULL FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts WHERE deptno = 5;

-- an alias, and FROM
-- dialect: postgres
UPDATE depts AS d SET name = s.a FROM src AS s WHERE s.b = d.deptno;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT d.deptno, s.a, :version, NULL FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS d, src AS s WHERE s.b = d.deptno;

-- several at once
-- dialect: postgres
UPDATE emps SET (ename, deptno) = ('x', deptno + 1);
INSERT INTO emps_journal (org, empid, ename, deptno, version_number, subsequent_version_number) SELECT emps.org, emps.empid, 'x', deptno + 1, :version, NULL FROM (SELECT c.org, c.empid, c.ename, c.deptno FROM emps_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM emps_journal AS n WHERE n.org = c.org AND n.empid = c.empid AND n.version_number > c.version_number)) AS emps;

-- the key: old keys end where no row takes them
-- dialect: postgres
UPDATE depts SET deptno = deptno + 1;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) WITH lakemend_pairs AS (SELECT CAST(deptno + 1 AS INT) AS deptno, depts.name AS name, depts.deptno AS lakemend_old_1, depts.name AS lakemend_old_2 FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts) SELECT m.deptno, m.name, :version, CAST(NULL AS BIGINT) FROM lakemend_pairs AS m UNION ALL SELECT m.lakemend_old_1, m.lakemend_old_2, :version, :version FROM lakemend_pairs AS m WHERE NOT EXISTS (SELECT 1 FROM lakemend_pairs AS o WHERE m.lakemend_old_1 = o.deptno);

-- several from one query
-- dialect: postgres
UPDATE emps SET (ename, deptno) = (SELECT s.a, s.b FROM src AS s WHERE s.b = emps.empid);
INSERT INTO emps_journal (org, empid, ename, deptno, version_number, subsequent_version_number) SELECT emps.org, emps.empid, (SELECT lakemend_row.lakemend_old_1 FROM (SELECT s.a, s.b FROM src AS s WHERE s.b = emps.empid) AS lakemend_row (lakemend_old_1, lakemend_old_2)), (SELECT lakemend_row.lakemend_old_2 FROM (SELECT s.a, s.b FROM src AS s WHERE s.b = emps.empid) AS lakemend_row (lakemend_old_1, lakemend_old_2)), :version, NULL FROM (SELECT c.org, c.empid, c.ename, c.deptno FROM emps_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM emps_journal AS n WHERE n.org = c.org AND n.empid = c.empid AND n.version_number > c.version_number)) AS emps;

-- several from one query that counts
-- dialect: postgres
UPDATE emps SET (ename, deptno) = (SELECT max(s.a), count(*) FROM src AS s WHERE s.b = emps.empid);
INSERT INTO emps_journal (org, empid, ename, deptno, version_number, subsequent_version_number) SELECT emps.org, emps.empid, (SELECT lakemend_row.lakemend_old_1 FROM (SELECT max(s.a), count(*) FROM src AS s WHERE s.b = emps.empid) AS lakemend_row (lakemend_old_1, lakemend_old_2)), (SELECT lakemend_row.lakemend_old_2 FROM (SELECT max(s.a), count(*) FROM src AS s WHERE s.b = emps.empid) AS lakemend_row (lakemend_old_1, lakemend_old_2)), :version, NULL FROM (SELECT c.org, c.empid, c.ename, c.deptno FROM emps_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM emps_journal AS n WHERE n.org = c.org AND n.empid = c.empid AND n.version_number > c.version_number)) AS emps;
