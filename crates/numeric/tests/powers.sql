-- Makes powers.tsv with a real PostgreSQL 16 or later: psql -X -q -A -t -f powers.sql -o powers.tsv
-- Each line: base, exponent and power, separated by tabs.
\pset fieldsep '\t'
SELECT base, exponent, power(base, exponent)
FROM unnest('{0, 0.00, 1, 1.000, -1, 2, -2.50, 10, 0.1, 0.001, -0.0003, 9999.9999, 12345678901234567890, 1e-40, 3e60, 0.99999999}'::numeric[]) base,
    unnest('{0, 1, 2, 3, -1, -2, -3, 7, 20, -20, 41, 400, -33, 2.00, 3.000000000000000000000, -5.0, 0.5}'::numeric[]) exponent
WHERE (base <> 0 OR exponent >= 0) AND (base >= 0 OR exponent = trunc(exponent)) AND abs(exponent * ln(greatest(abs(base), 1e-50))) < 2000;
