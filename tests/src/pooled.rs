//! Poolers that share one server session among many clients follow `anker.route`, because the server reports it.

use bench::Result;
use bench::wire::{Form, Wire};

use crate::runner::{Context, ensure, tests};

tests![the_route_is_reported_to_clients];

fn the_route_is_reported_to_clients(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE ROLE bob LOGIN; ALTER ROLE bob SET anker.route = auto")?;
    let mut session = Wire::connect(&cluster.config())?;
    let mut after = |sql: &str, expected: &str| -> Result<()> {
        // The simple protocol may run several statements.
        session.ask(sql, Form::Simple)?;
        let reported = session.reported("anker.route");
        ensure!(reported == Some(expected), "{reported:?} was reported after {sql:?}");
        Ok(())
    };
    after("", "hint")?;
    after("SET anker.route = prefer", "prefer")?;
    after("BEGIN; SET LOCAL anker.route = 'off'", "off")?;
    after("ROLLBACK", "prefer")?;
    after("SELECT set_config('anker.route', 'auto', false)", "auto")?;
    after("RESET ALL", "hint")?;
    let bobs = Wire::connect(cluster.config().user("bob"))?;
    ensure!(bobs.reported("anker.route") == Some("auto"), "bob was told {:?}", bobs.reported("anker.route"));
    Ok(())
}
