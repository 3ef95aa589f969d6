"""Rows that the program itself gives: tables in memory, iterators, threads that push."""
