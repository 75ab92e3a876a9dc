//! Compares the system calls of kernel-patch with other mechanisms, as ratios of times. The speed of a machine may
//! vary, especially of an emulated one. So that this does not determine the result, the mechanisms take turns, in
//! reverse order every second time. Each round gives a ratio of its own.

use anker_report::{median, percentile};
use serde_json::json;

use super::columns::{Answer, Columns, Request};
use crate::Result;
use crate::distribution::PAGE;
use crate::session::Session;
use crate::table::Subject;
use crate::worker::Worker;

pub const NAME: &str = "turns";
/// The name of the figure for a mechanism's time divided by that of vm_snapshot.
pub const RATIO: &str = "times_vm_snapshot";

const CALL: &str = "vm_snapshot";
const OTHERS: [&str; 3] = ["fork", "rewired", "mremap_cow"];

struct Player {
    subject: Subject,
    worker: Worker<Columns>,
    /// For each round, the nanoseconds for creating a snapshot.
    times: Vec<f64>,
}

impl Player {
    fn start(session: &Session, subject: Subject, bytes: usize) -> Result<Player> {
        let job = session.job(subject, vec![bytes; session.options.columns], bytes)?;
        let mut player = Player { subject, worker: Worker::start(&job)?, times: Vec::new() };
        // This request waits until the player's columns exist. Only then is it known how much memory is left for the
        // next player.
        player.modify(0)?;
        Ok(player)
    }

    /// Measures several snapshots. The first one is not counted, because it only brings this player's memory back into
    /// the caches, from which the other players have displaced it. A fork is measured only once: writing to all columns
    /// before each fork takes long, and a single fork takes long enough to be measured exactly.
    fn take_turn(&mut self) -> Result<()> {
        let repeats = if self.subject.is_fork() { 2 } else { 6 };
        if let Answer::Created { create, .. } = self.worker.ask(Request::Create { columns: 1, repeats })? {
            self.times.push(median(&create[1..]));
        }
        Ok(())
    }

    fn modify(&mut self, pages: usize) -> Result<()> {
        self.worker.ask(Request::Modify { columns: 1, from: 0, to: pages }).map(drop)
    }
}

/// Runs the experiment. If the kernel lacks the call vm_snapshot, measures nothing.
pub fn run(session: &mut Session) {
    let subjects = session.subjects();
    if !subjects.iter().any(|subject| subject.name() == CALL) {
        return;
    }
    let bytes = session.options.column_bytes_by_turns();
    let mut players = Vec::new();
    for subject in subjects.into_iter().filter(|subject| subject.name() == CALL || OTHERS.contains(&subject.name())) {
        session.progress(&format!("{NAME}: {} makes columns of {} MB", subject.name(), bytes >> 20));
        let player = Player::start(session, subject, bytes);
        players.extend(session.or_skip(NAME, subject.name(), json!({}), player));
    }
    play(session, &mut players, 0);
    // A fork copies all page tables, whether or not their pages have been written to.
    players.retain(|player| !player.subject.is_fork());
    players.retain_mut(|player| {
        let done = player.modify(bytes / PAGE);
        session.or_skip(NAME, player.subject.name(), json!({}), done).is_some()
    });
    play(session, &mut players, bytes / PAGE);
}

/// Runs rounds in which each player takes snapshots of one column. Before that, `modified` pages of the column were
/// changed one by one. A player that fails takes no part in later rounds.
fn play(session: &mut Session, players: &mut Vec<Player>, modified: usize) {
    let rounds = session.options.effort.choose(15, 25, 51);
    session.progress(&format!("{NAME}: {rounds} rounds, {modified} pages modified"));
    players.iter_mut().for_each(|player| player.times.clear());
    for _ in 0..rounds {
        if session.or_skip(NAME, "all", json!({ "modified_pages": modified }), session.time_left()).is_none() {
            break;
        }
        players.retain_mut(|player| {
            let turn = player.take_turn();
            session.or_skip(NAME, player.subject.name(), json!({ "modified_pages": modified }), turn).is_some()
        });
        players.reverse();
    }
    let Some(call) = players.iter().find(|player| player.subject.name() == CALL) else { return };
    for player in players.iter().filter(|player| !player.times.is_empty()) {
        let ratios: Vec<_> = player.times.iter().zip(&call.times).map(|(other, call)| other / call).collect();
        let params = json!({
            "columns": session.options.columns,
            "column_mb": session.options.column_bytes_by_turns() >> 20,
            "modified_pages": modified,
            "rounds": ratios.len(),
            "median_ms": median(&player.times) / 1e6,
            "lower_quartile": percentile(&ratios, 0.25),
            "upper_quartile": percentile(&ratios, 0.75),
        });
        session.row((NAME, RATIO), player.subject.name(), params, median(&ratios), "×");
    }
}
