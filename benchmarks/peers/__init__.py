"""The engines Lakemend is measured against, each behind the same few methods (`engine.Engine`).

Those on Spark live in virtual environments of their own, made on first use (`install`), and run as subprocesses
(`process`, `server`) that take one statement at a time: whoever is measured has the machine for itself.
"""
