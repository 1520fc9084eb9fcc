-- the newest row of each key, where it is no mark of a deletion
-- dialect: postgres
SELECT * FROM depts;
SELECT * FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- an alias stays
-- dialect: postgres
SELECT d.name FROM depts AS d WHERE d.deptno = 1;
SELECT d.name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS d WHERE d.deptno = 1;

-- a column list of an alias
-- dialect: postgres
SELECT a FROM depts AS d(a, b);
SELECT a FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS d(a, b);

-- quotes: PostgreSQL folds what is not quoted
-- dialect: postgres
SELECT * FROM "depts" JOIN Depts AS e USING (deptno);
SELECT * FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS "depts" JOIN (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS e USING (deptno);

-- another name in PostgreSQL, which is not journaled
-- dialect: postgres
SELECT * FROM "Depts";
SELECT * FROM "Depts";

-- Spark compares names without case
-- dialect: spark
SELECT * FROM `DEPTS`;
SELECT * FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS `DEPTS`;

-- the default schema's name
-- dialect: postgres
SELECT public.depts.name FROM public.depts;
SELECT depts.name FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- another schema
-- dialect: postgres
SELECT depts.name FROM hr.depts;
SELECT depts.name FROM hr.depts;

-- the journal itself
-- dialect: postgres
SELECT version_number FROM depts_journal;
SELECT version_number FROM depts_journal;

-- a composite key
-- dialect: postgres
SELECT e.ename FROM emps e;
SELECT e.ename FROM (SELECT c.org, c.empid, c.ename, c.deptno FROM emps_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM emps_journal AS n WHERE n.org = c.org AND n.empid = c.empid AND n.version_number > c.version_number)) e;

-- names that need quotes
-- dialect: postgres
SELECT "Odd Table"."Key A" FROM "Odd Table";
SELECT "Odd Table"."Key A" FROM (SELECT c."Key A", c."order" FROM "Odd Table_journal" AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM "Odd Table_journal" AS n WHERE n."Key A" = c."Key A" AND n.version_number > c.version_number)) AS "Odd Table";

-- names that need quotes, in Spark
-- dialect: spark
SELECT `odd table`.`key a` FROM `Odd Table`;
SELECT `odd table`.`key a` FROM (SELECT c.`Key A`, c.`order` FROM `Odd Table_journal` AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM `Odd Table_journal` AS n WHERE n.`Key A` = c.`Key A` AND n.version_number > c.version_number)) AS `Odd Table`;

-- without a schema each column must be named
-- dialect: postgres
-- with: none
SELECT name FROM depts;
SELECT name FROM (SELECT c.* FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts;

-- a table function's rows beside it
-- dialect: postgres
SELECT n FROM depts, LATERAL generate_series(1, deptno) AS n;
SELECT n FROM (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) AS depts, LATERAL generate_series(1, deptno) AS n;

-- comments, hints and spelling stay
-- dialect: spark
select /*+ BROADCAST(d) */ nvl(d.name, 'x') -- why
from depts d /* the */ where d.deptno <=> 1;
select /*+ BROADCAST(d) */ nvl(d.name, 'x') -- why
from (SELECT c.deptno, c.name FROM depts_journal AS c WHERE c.subsequent_version_number IS NULL AND NOT EXISTS (SELECT 1 FROM depts_journal AS n WHERE n.deptno = c.deptno AND n.version_number > c.version_number)) d /* the */ where d.deptno <=> 1;
