"""Tables of records, beside the tables of the paper."""
