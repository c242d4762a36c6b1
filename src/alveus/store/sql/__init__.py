"""What the stores on SQL databases share: the statements, and what they are made of.

`store/sqlite` and `store/postgres` bring connections, transactions and locks; the tables are the
same in both, and so is every statement here.
"""
