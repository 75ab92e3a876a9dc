//! Heap and engine must order texts and change their letter case in the same way in locales of the C library.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bench::cluster::Options;
use bench::{Result, anker};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::flagged::compare;
use crate::runner::{Context, ensure, tests};

tests![text_in_the_order_of_locales, a_database_in_a_locale];

const LIVE: Duration = Duration::from_secs(60);

/// Locales with unusual rules: ä after z in Swedish, ch after h in Czech, capitals of i in Turkish, punctuation that
/// counts only between otherwise equal texts.
const LOCALES: [&str; 4] = ["de_DE", "sv_SE", "cs_CZ", "tr_TR"];
const LETTERS: &str = "aAbBcChHiIzZäÄåéñßøıİčČžŁαΣςжЯאあ中0179 -_.,'@#$%&()+/:[]~\u{301}\u{200b}ﬀ😀";

/// Options of a server that has these locales. They are compiled from the sources that come with the C library.
pub fn options(context: &Context) -> Result<Options> {
    let folder = context.home().join("locales");
    for locale in LOCALES {
        let compiled = folder.join(format!("{locale}.utf8"));
        if !compiled.exists() {
            std::fs::create_dir_all(&folder)?;
            let made = Command::new("localedef").args(["-c", "-i", locale, "-f", "UTF-8"]).arg(&compiled).output()?;
            ensure!(compiled.exists(), "localedef: {}", String::from_utf8_lossy(&made.stderr));
        }
    }
    let own = Path::new("/usr/lib/locale/C.utf8");
    if own.exists() && !folder.join("C.utf8").exists() {
        std::os::unix::fs::symlink(own, folder.join("C.utf8"))?;
    }
    Ok(Options::default().environment("LOCPATH", &folder.to_string_lossy()).set("anker.max_wait", "30s"))
}

fn word(dice: &mut StdRng) -> String {
    let letters: Vec<char> = LETTERS.chars().collect();
    let length = dice.random_range(0..7);
    (0..length).filter_map(|_| letters.choose(dice)).collect()
}

fn words(dice: &mut StdRng, rows: usize, columns: usize) -> String {
    let value = |dice: &mut StdRng| match dice.random_range(0..12) {
        0 => "NULL".to_owned(),
        _ => format!("'{}'", word(dice).replace('\'', "''")),
    };
    let rows = (0..rows).map(|id| {
        let values: Vec<String> = (0..columns).map(|_| value(dice)).collect();
        format!("({id}, {})", values.join(", "))
    });
    rows.collect::<Vec<_>>().join(", ")
}

fn questions(dice: &mut StdRng, column: &str, other: &str) -> Vec<String> {
    let literal = format!("'{}'", word(dice).replace('\'', "''"));
    vec![
        format!("SELECT min({column}), max({column}) FROM words WHERE anker.olap()"),
        format!("SELECT id % 7, min({column}), max({column}) FROM words WHERE anker.olap() GROUP BY 1"),
        format!("SELECT id FROM words WHERE {column} < {literal} AND anker.olap()"),
        format!("SELECT id FROM words WHERE {column} >= {literal} AND {column} <= 'z' AND anker.olap()"),
        format!("SELECT {column}, id FROM words WHERE anker.olap() ORDER BY {column} DESC NULLS LAST, id LIMIT 40"),
        format!(
            "SELECT count(*) FROM words a JOIN words b ON a.id = b.id + 1 AND a.{column} < b.{column} WHERE anker.olap()"
        ),
        format!("SELECT count(*), max({other}) FROM words WHERE {column} < {other} AND anker.olap()"),
        format!("SELECT upper({column}), lower({column}) FROM words WHERE anker.olap()"),
        format!("SELECT count(*) FROM words WHERE lower({column}) LIKE '%i%' AND anker.olap()"),
        format!("SELECT (SELECT max({column}) FROM words b WHERE b.id < a.id % 9) FROM words a WHERE anker.olap()"),
        format!(
            "SELECT id FROM words WHERE {column} > ALL (SELECT {column} FROM words b WHERE b.id < 3) AND anker.olap()"
        ),
    ]
}

/// Queries whose results depend on the order of texts: first rows, window functions, and the greatest of several texts.
fn orders(dice: &mut StdRng, column: &str, other: &str) -> Vec<String> {
    let literal = format!("'{}'", word(dice).replace('\'', "''"));
    let of = |rows: &str| format!("SELECT * FROM ({rows}) s WHERE anker.olap()");
    vec![
        format!(
            "SELECT id, {column}, {other} FROM words WHERE anker.olap()
             ORDER BY {column} NULLS FIRST, {other} DESC, id LIMIT 50 OFFSET 7"
        ),
        format!(
            "SELECT {column} FROM words WHERE anker.olap()
             ORDER BY {column} DESC NULLS LAST FETCH FIRST 9 ROWS WITH TIES"
        ),
        of(&format!("SELECT * FROM words ORDER BY {column}, id LIMIT 100")),
        of(&format!("SELECT DISTINCT ON (id % 9) id % 9, {column} FROM words ORDER BY id % 9, {column} DESC, id")),
        of(&format!("SELECT DISTINCT ON ({other}) {other}, id FROM words ORDER BY {other}, {column}, id")),
        of(&format!(
            "SELECT id, rank() OVER w, count(*) OVER w, max({column}) OVER w AS m, sum(id) OVER w AS s FROM words
             WINDOW w AS (PARTITION BY id % 3 ORDER BY {column} DESC NULLS LAST)"
        )),
        of(&format!(
            "SELECT id, row_number() OVER (ORDER BY {column}, {other} DESC NULLS FIRST, id) AS n,
                min({other}) OVER (PARTITION BY {column} ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS m
             FROM words"
        )),
        of(&format!(
            "SELECT id, greatest({column}, {other}, {literal}), least({other}, NULL, {column}) AS l FROM words"
        )),
    ]
}

fn ask(client: &mut postgres::Client, questions: &[String]) -> Result<()> {
    for sql in questions {
        compare(client, sql, sql.ends_with(" LIMIT 40") || sql.ends_with(" OFFSET 7"))?;
        let by = anker::analyzed(client, sql)?;
        ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    Ok(())
}

fn text_in_the_order_of_locales(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&options(context)?)?;
    let mut client = cluster.connect()?;
    client.batch_execute("CREATE EXTENSION pg_anker")?;
    let mut dice = StdRng::seed_from_u64(7);
    let rows = context.size(6000, 1500) as usize;
    for locale in LOCALES {
        client.batch_execute(&format!(
            "CREATE COLLATION \"{locale}\" (provider = libc, locale = '{locale}.utf8');
             CREATE TABLE words (id integer PRIMARY KEY, t text COLLATE \"{locale}\", v varchar COLLATE \"{locale}\");
             INSERT INTO words VALUES {}",
            words(&mut dice, rows, 2)
        ))?;
        anker::mirror(&mut client, &["words"], LIVE)?;
        let asked =
            [("t", "v"), ("v", "t")].map(|(a, b)| [questions(&mut dice, a, b), orders(&mut dice, a, b)].concat());
        let asked = asked.concat();
        ask(&mut client, &asked)?;
        client.batch_execute("DROP TABLE words")?;
    }
    Ok(())
}

/// Tests the default collation of a database, and the order of char(n), in which trailing blanks do not count.
fn a_database_in_a_locale(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&options(context)?)?;
    cluster.connect()?.batch_execute("CREATE DATABASE svensk LOCALE 'sv_SE.utf8' TEMPLATE template0")?;
    let mut client = cluster.connect_to("svensk")?;
    let mut dice = StdRng::seed_from_u64(8);
    client.batch_execute(&format!(
        "CREATE EXTENSION pg_anker;
         CREATE TABLE words (id integer PRIMARY KEY, t text, v char(9));
         INSERT INTO words VALUES {}",
        words(&mut dice, 800, 2)
    ))?;
    anker::mirror(&mut client, &["words"], LIVE)?;
    let mut asked = [questions(&mut dice, "t", "t"), orders(&mut dice, "t", "t"), orders(&mut dice, "v", "v")].concat();
    asked.extend([
        "SELECT min(v), max(v) FROM words WHERE anker.olap()".into(),
        "SELECT id % 5, min(v) FROM words WHERE anker.olap() GROUP BY 1".into(),
        "SELECT id FROM words WHERE v < 'm ' AND anker.olap()".into(),
        "SELECT v, id FROM words WHERE anker.olap() ORDER BY v DESC NULLS LAST, id LIMIT 30".into(),
    ]);
    ask(&mut client, &asked)
}
