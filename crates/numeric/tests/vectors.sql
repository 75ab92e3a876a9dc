-- Makes vectors.tsv with a real PostgreSQL 15 (as a superuser, on a little-endian machine, in an empty database):
--   psql -X -q -A -t -f vectors.sql -o vectors.tsv
-- Each line: a function's name, inputs and results, separated by tabs. A result that starts with "E" is an error.
set client_min_messages = error;
create extension if not exists pageinspect;

create function pg_temp.try(expression text, variadic args text[]) returns text language plpgsql as $$
declare result text;
begin
    execute 'select (' || expression || ')::text' into result using args[1], args[2];
    return coalesce(result, 'none');
exception when others then
    return 'E' || sqlerrm;
end $$;

create table number (id serial, t text);
insert into number (t) values
    ('0'), ('0.00000'), ('1'), ('-1'), ('1.000'), ('2'), ('3'), ('-7'), ('10'), ('0.1'), ('-0.10'), ('0.5'), ('-0.5'), ('1.5'), ('2.5'),
    ('9999'), ('10000'), ('10001'), ('99999999'), ('100000000'), ('0.0001'), ('0.00009999'), ('0.9999'), ('1.0001'),
    ('4999.5'), ('5000.5'), ('-12345.6789'), ('39441.53'), ('448.20'), ('0.07'), ('1234567890.123456'), ('99999.995'),
    ('9223372036854775807'), ('9223372036854775807.5'), ('-9223372036854775808.49'), ('18446744073709551616'),
    ('9007199254740993'), ('170141183460469231731687303715884105727'), ('-170141183460469231731687303715884105728'),
    ('340282366920938463463374607431768211455.5'), ('99999999999999999999999999999999999999'),
    ('100000000000000000000000000000000000000'), ('0.00000000000000000000000000000000000001'),
    ('-99999999999999999999.999999999999999999'), ('1e-30'), ('-1.000000000000000000000000000001'), ('6.02214076e23'), ('1e60'),
    ('-123456789012345678901234567890123456789012345678901234567890.12345678901234567890123456789'),
    ('0.333333333333333333333333333333333333333333333333333333333333'), ('1e-70'), ('5e-324'), ('1.7976931348623157e308'), ('1e309'),
    ('NaN'), ('Infinity'), ('-Infinity');

-- Values are stored as they are, so that their bytes can be read from the page.
create table stored (id int, v numeric, shown text);
alter table stored alter v set storage plain;
insert into stored select id, t::numeric, left(t::numeric::text, 1) from number order by id;

create function pg_temp.line(variadic fields text[]) returns text language sql as $$ select array_to_string(fields, E'\t') $$;

select pg_temp.line('pair', a.t, b.t,
    pg_temp.try('$1::numeric + $2::numeric', a.t, b.t), pg_temp.try('$1::numeric - $2::numeric', a.t, b.t),
    pg_temp.try('$1::numeric * $2::numeric', a.t, b.t), pg_temp.try('$1::numeric / $2::numeric', a.t, b.t),
    pg_temp.try('$1::numeric % $2::numeric', a.t, b.t), pg_temp.try('div($1::numeric, $2::numeric)', a.t, b.t),
    pg_temp.try('numeric_cmp($1::numeric, $2::numeric)', a.t, b.t))
from number a, number b
where hashtext(a.t || '/' || b.t) % 14 = 0 or (b.t in ('Infinity', 'NaN', '0') and a.t in ('0', '1', '-1', 'Infinity', '-Infinity', 'NaN'))
order by a.id, b.id;

select pg_temp.line('one', t, d::text,
    pg_temp.try('round($1::numeric, $2::int)', t, d::text), pg_temp.try('trunc($1::numeric, $2::int)', t, d::text),
    pg_temp.try('ceil($1::numeric)', t), pg_temp.try('floor($1::numeric)', t), pg_temp.try('abs($1::numeric)', t),
    pg_temp.try('sign($1::numeric)', t), pg_temp.try('-$1::numeric', t), pg_temp.try('trim_scale($1::numeric)', t),
    pg_temp.try('scale($1::numeric)', t),
    pg_temp.try('encode(float8send($1::numeric::float8), ''hex'')', t), pg_temp.try('$1::numeric::int8', t))
from number, lateral (values (0), (1), (hashtext(t) % 9)) d(d)
order by id, d;

select pg_temp.line('stored', v::text, encode(t_attrs[2], 'hex'))
from generate_series(0, pg_relation_size('stored') / 8192 - 1) block,
    lateral heap_page_item_attrs(get_raw_page('stored', block::int), 'stored') item
    join stored on stored.id = get_byte(t_attrs[1], 0)
order by stored.id;

select pg_temp.line('text', t, pg_temp.try('$1::numeric', t))
from (values ('nan'), (' NaN '), ('+nan'), ('-nan'), ('inf'), ('+INF'), ('-inf'), ('+Infinity'), ('-infinity'), ('infinit'), (''), (' '), ('.'),
    ('5.'), ('.5'), ('-.5'), ('+5'), ('+-5'), ('- 5'), ('1.2.3'), ('1e'), ('1e+'), ('1e5'), ('1e 5'), ('1E+5 '), ('1e5.'), ('1 2'), ('1_000'),
    ('0x10'), ('1.50e1'), ('100e-1'), ('1.000e10'), ('-0.0e5'), ('000123.4500'), ('0e-16384'), ('1e-16384'), ('1e131072'),
    ('0e1073741822'), ('0e1073741823'), ('1e99999999999999999999'), ('1e-99999999999999999999'),
    ('340282366920938463463374607431768211456'), ('999999999999999999999999999999999999999'), ('1a'), ('e5')) texts(t);

select pg_temp.line('float', encode(float8send(f), 'hex'), f::numeric::text)
from (values (0::float8), (-0.0), (1), (0.1), (1e15), (123456789012345.5), (1234567890123445), (1234567890123435), (999999999999999.5),
    (0.1::float8 + 0.2), (1e20), (1.5e-7), (1e-300), (-1.7976931348623157e308), (5e-324), (100), (0.00012), ('NaN'), ('Infinity'),
    ('-Infinity'), (4503599627370497.5), (2.5), (39441.53), (1::float8 / 3)) floats(f);

select pg_temp.line('sum', values, (select pg_temp.line(coalesce(sum(v::numeric)::text, 'none'), coalesce(avg(v::numeric)::text, 'none'))
    from regexp_split_to_table(values, ' ') v))
from (values ('1'), ('1 2'), ('1.5 2.25 -3.750'), ('0 0.000'), ('NaN 1'), ('Infinity 1'), ('-Infinity 1'), ('Infinity -Infinity'),
    ('Infinity NaN'), ('0.1 0.2 0.3 0.4 0.5 0.6 0.7'), ('1e60 1 -1e60'), ('1e60 -1e60'), ('1e-70 1e70'), ('-1e60 -1e-20 5'),
    ('170141183460469231731687303715884105727 170141183460469231731687303715884105727 1'),
    ('-170141183460469231731687303715884105728 -1.5 170141183460469231731687303715884105728'),
    ('99999999999999999999999999999999999999 0.00000000000000000000000000000000000001 -0.5'), ('9999 1 9999 1 10000 -0.0001'),
    ('1.00000000000000000000 0.5 1e30'), ('100 200 300.00')) sums(values);

-- Some have thousands of digits.
select line from (
    select a.id, b.id, pg_temp.line('power', a.t, b.t,
        pg_temp.try('sqrt($1::numeric)', a.t), pg_temp.try('exp($1::numeric)', a.t), pg_temp.try('ln($1::numeric)', a.t),
        pg_temp.try('log($2::numeric, $1::numeric)', a.t, b.t), pg_temp.try('$1::numeric ^ $2::numeric', a.t, b.t))
    from number a, number b
    where hashtext(a.t || '^' || b.t) % 14 = 0 or (b.t in ('Infinity', '-Infinity', 'NaN', '0', '1', '-1', '0.5')
        and a.t in ('0', '1', '-1', '2', '-0.5', 'Infinity', '-Infinity', 'NaN'))
) lines(a, b, line)
where length(line) < 500
order by a, b;

drop table number, stored;
