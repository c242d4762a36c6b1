"""The statements that all SQL stores share, and the code that builds them.

`store/sqlite` and `store/postgres` add connections, transactions and locks; the tables are the
same in both, and so is every statement here.
"""
