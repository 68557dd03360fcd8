//! The tables of transactions, row by row.
