"""Queries in the manner of TPC-H, whose numbers they bear. A table is written {orders}.

Each says in full by what its rows are ordered, so that a limit takes the same rows from every plan.
"""

from __future__ import annotations

# Orders and lines are joined by month and key, which is how both tables lie on disk.
ALIGNED = {
    "orders with their lines": """
        SELECT o_orderpriority, count(*), sum(l_extendedprice), sum(o_totalprice)
        FROM {orders} JOIN {lineitem} ON l_month = o_month AND l_orderkey = o_orderkey
        GROUP BY o_orderpriority""",
    "3 tables (3)": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate
        FROM {orders} JOIN {lineitem} ON l_month = o_month AND l_orderkey = o_orderkey
            JOIN {customer} ON c_custkey = o_custkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE'1995-03-15' AND l_shipdate > DATE'1995-03-15'
        GROUP BY l_orderkey, o_orderdate ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    "5 tables (5)": """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {orders} JOIN {lineitem} ON l_month = o_month AND l_orderkey = o_orderkey
            JOIN {customer} ON c_custkey = o_custkey
            JOIN {supplier} ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
            JOIN {nation} ON n_nationkey = s_nationkey
        WHERE n_regionkey = 2 AND o_orderdate >= DATE'1994-01-01' AND o_orderdate < DATE'1996-01-01'
        GROUP BY n_name ORDER BY revenue DESC, n_name""",
    "5 tables (9, profit of a kind of part)": """
        SELECT n_name, year(o_orderdate) AS year, sum(l_extendedprice * (1 - l_discount) - l_quantity) AS profit
        FROM {lineitem} JOIN {orders} ON o_month = l_month AND o_orderkey = l_orderkey
            JOIN {part} ON p_partkey = l_partkey
            JOIN {supplier} ON s_suppkey = l_suppkey
            JOIN {nation} ON n_nationkey = s_nationkey
        WHERE p_type = 'PROMO'
        GROUP BY n_name, year(o_orderdate) ORDER BY n_name, year DESC""",
    "3 tables (18, large orders)": """
        SELECT c_name, o_orderkey, o_totalprice, sum(l_quantity) AS quantity
        FROM {orders} JOIN {lineitem} ON l_month = o_month AND l_orderkey = o_orderkey
            JOIN {customer} ON c_custkey = o_custkey
        WHERE (o_month, o_orderkey) IN (
            SELECT l_month, l_orderkey FROM {lineitem} GROUP BY l_month, l_orderkey HAVING sum(l_quantity) > 270)
        GROUP BY c_name, o_orderkey, o_totalprice ORDER BY o_totalprice DESC, o_orderkey LIMIT 100""",
    "4 tables (21, suppliers who kept orders waiting)": """
        SELECT s_name, count(*) AS waits
        FROM {lineitem} l1 JOIN {orders} ON o_month = l_month AND o_orderkey = l_orderkey
            JOIN {supplier} ON s_suppkey = l_suppkey
            JOIN {nation} ON n_nationkey = s_nationkey
        WHERE o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate AND n_name = 'NATION 3'
            AND EXISTS (
                SELECT * FROM {lineitem} l2
                WHERE l2.l_month = l1.l_month AND l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
            AND NOT EXISTS (
                SELECT * FROM {lineitem} l3
                WHERE l3.l_month = l1.l_month AND l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
                    AND l3.l_receiptdate > l3.l_commitdate)
        GROUP BY s_name ORDER BY waits DESC, s_name LIMIT 100""",
}

# What these ask for lies across the months.
INDIFFERENT = {
    "1, pricing summary": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
            sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
            avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        FROM {lineitem} WHERE l_shipdate <= DATE'1998-09-02'
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "3, shipping priority": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate
        FROM {customer} JOIN {orders} ON c_custkey = o_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE'1995-03-15' AND l_shipdate > DATE'1995-03-15'
        GROUP BY l_orderkey, o_orderdate ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    "4, order priority": """
        SELECT o_orderpriority, count(*) FROM {orders}
        WHERE o_orderdate >= DATE'1993-07-01' AND o_orderdate < DATE'1993-10-01'
            AND EXISTS (SELECT * FROM {lineitem} WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    "6, forecast of revenue": """
        SELECT sum(l_extendedprice * l_discount) FROM {lineitem}
        WHERE l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'
            AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "10, returned items": """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name
        FROM {customer} JOIN {orders} ON c_custkey = o_custkey JOIN {lineitem} ON l_orderkey = o_orderkey
            JOIN {nation} ON c_nationkey = n_nationkey
        WHERE o_orderdate >= DATE'1993-10-01' AND o_orderdate < DATE'1994-01-01' AND l_returnflag = 'R'
        GROUP BY c_custkey, c_name, c_acctbal, n_name ORDER BY revenue DESC, c_custkey LIMIT 20""",
    "12, shipping modes": """
        SELECT l_shipmode, count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')),
            count_if(o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
        FROM {orders} JOIN {lineitem} ON l_orderkey = o_orderkey
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
            AND l_receiptdate >= DATE'1994-01-01' AND l_receiptdate < DATE'1995-01-01'
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    "13, customers by orders": """
        SELECT orders, count(*) FROM (
            SELECT c_custkey, count(o_orderkey) AS orders
            FROM {customer} LEFT JOIN {orders} ON c_custkey = o_custkey AND o_orderpriority <> '5-LOW'
            GROUP BY c_custkey)
        GROUP BY orders""",
    "14, effect of promotion": """
        SELECT sum(IF(p_type = 'PROMO', l_extendedprice * (1 - l_discount), 0)), sum(l_extendedprice * (1 - l_discount))
        FROM {lineitem} JOIN {part} ON l_partkey = p_partkey
        WHERE l_shipdate >= DATE'1995-09-01' AND l_shipdate < DATE'1995-10-01'""",
    "15, top supplier": """
        SELECT s_suppkey, s_name, revenue FROM {supplier} JOIN (
            SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM {lineitem}
            WHERE l_shipdate >= DATE'1996-01-01' AND l_shipdate < DATE'1996-04-01' GROUP BY l_suppkey)
        ON s_suppkey = l_suppkey ORDER BY revenue DESC, s_suppkey LIMIT 5""",
    "18, large orders": """
        SELECT c_name, o_orderkey, o_totalprice, sum(l_quantity) AS quantity
        FROM {customer} JOIN {orders} ON c_custkey = o_custkey JOIN {lineitem} ON o_orderkey = l_orderkey
        WHERE o_orderkey IN (SELECT l_orderkey FROM {lineitem} GROUP BY l_orderkey HAVING sum(l_quantity) > 270)
        GROUP BY c_name, o_orderkey, o_totalprice ORDER BY o_totalprice DESC, o_orderkey LIMIT 100""",
}
