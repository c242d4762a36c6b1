-- Commit times may go back, where a clock had been ahead: from one setback to the next they rise.

CREATE TABLE setback (         -- commits whose time is before that of the last one: a clock that
    n INTEGER PRIMARY KEY,     -- was ahead went back; in between times rise with the numbers
    time INTEGER NOT NULL
) STRICT;
