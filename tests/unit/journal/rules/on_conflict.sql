-- do nothing
-- dialect: postgres
INSERT INTO depts VALUES (1, 'a') ON CONFLICT (deptno) DO NOTHING;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT excluded.deptno, excluded.name, :version, NULL FROM (VALUES (CAST(1 AS INT), CAST('a' AS VARCHAR))) AS excluded (deptno, name) LEFT JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts ON depts.deptno = excluded.deptno WHERE depts.deptno IS NULL;

-- do nothing: of two rows with one key the first
-- dialect: postgres
INSERT INTO depts VALUES (1, 'a'), (1, 'b') ON CONFLICT DO NOTHING;
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT excluded.deptno, excluded.name, :version, NULL FROM (SELECT g.deptno, g.name FROM (SELECT f.deptno, f.name, ROW_NUMBER() OVER (PARTITION BY f.deptno ORDER BY f.lakemend_row) AS lakemend_row FROM (VALUES (CAST(1 AS INT), CAST('a' AS VARCHAR), 0), (CAST(1 AS INT), CAST('b' AS VARCHAR), 1)) AS f (deptno, name, lakemend_row)) AS g WHERE g.lakemend_row = 1) AS excluded LEFT JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts ON depts.deptno = excluded.deptno WHERE depts.deptno IS NULL;

-- do update
-- dialect: postgres
INSERT INTO depts AS d VALUES (1, 'a') ON CONFLICT (deptno) DO UPDATE SET name = d.name || excluded.name WHERE d.name <> 'x';
INSERT INTO depts_journal (deptno, name, version_number, subsequent_version_number) SELECT excluded.deptno, CASE WHEN d.deptno IS NULL THEN CAST(excluded.name AS VARCHAR) ELSE CAST(d.name || excluded.name AS VARCHAR) END, :version, NULL FROM (SELECT k.deptno AS deptno, CASE WHEN CHAR_LENGTH(RTRIM(k.name)) <= 20 THEN CAST(k.name AS VARCHAR(20)) ELSE k.name END AS name FROM (VALUES (CAST(1 AS INT), CAST('a' AS VARCHAR))) AS k (deptno, name)) AS excluded LEFT JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS d ON d.deptno = excluded.deptno WHERE (d.deptno IS NULL) OR ((d.name <> 'x'));
