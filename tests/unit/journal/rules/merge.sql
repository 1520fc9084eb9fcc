-- update or insert
-- dialect: postgres
MERGE INTO depts AS t USING src AS s ON t.deptno = s.b WHEN MATCHED THEN UPDATE SET name = s.a WHEN NOT MATCHED THEN INSERT (deptno, name) VALUES (s.b, s.a);
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT CASE WHEN t.deptno IS NOT NULL THEN t.deptno ELSE CAST(s.b AS INT) END, s.a, :version, NULL FROM src AS s LEFT JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS t ON t.deptno = s.b;

-- the first WHEN that applies
-- dialect: postgres
MERGE INTO depts t USING src s ON t.deptno = s.b WHEN MATCHED AND s.a IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.a;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT t.deptno, CASE WHEN (s.a IS NULL) THEN t.name ELSE CAST(s.a AS VARCHAR) END, :version, CASE WHEN (s.a IS NULL) THEN :version ELSE NULL END FROM src s JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS t ON t.deptno = s.b;

-- rows that no source row matches
-- dialect: postgres
MERGE INTO depts t USING src s ON t.deptno = s.b WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED BY SOURCE AND name = 'x' THEN DELETE;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT t.deptno, t.name, :version, :version FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS t WHERE NOT EXISTS (SELECT 1 FROM (SELECT t.deptno AS deptno FROM src s JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS t ON t.deptno = s.b) AS lakemend_row WHERE lakemend_row.deptno = t.deptno) AND ((name = 'x'));

-- all columns, in Spark
-- dialect: spark
MERGE INTO depts USING s ON depts.deptno = s.deptno WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT CASE WHEN depts.deptno IS NOT NULL THEN depts.deptno ELSE CAST(s.deptno AS INT) END, s.name, :version, NULL FROM s LEFT JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts ON depts.deptno = s.deptno;
