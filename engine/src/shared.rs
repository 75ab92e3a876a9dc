//! State that all connections share, and limits on their number.

use std::sync::Arc;
use std::time::Duration;

use protocol::control::Settings;
use protocol::mechanism;
use protocol::request::Refusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::activity::Activities;
use crate::admission::{Admission, MAX_OPEN_QUERIES, OpenQueries};
use crate::checkpoints::Checkpoints;
use crate::peer::Peer;
use crate::stats::Stats;
use crate::threads::Threads;
use crate::writer::WriterHandle;

/// The number of connections beyond those of open queries. They are for loaders, requests for figures, and queries that
/// must be told that too many queries are open.
const MORE_CONNECTIONS: usize = 100;
const MAX_CONNECTIONS: usize = MAX_OPEN_QUERIES + MORE_CONNECTIONS;
/// The number of idle connections that may wait for another request, and the time for which each may wait.
const MAX_IDLE: usize = 200;
const IDLE: Duration = Duration::from_secs(2);

/// State that all connections share.
pub struct Shared {
    pub settings: Settings,
    /// The mechanism of the columns' snapshots.
    pub mechanism: &'static str,
    /// Whether queries fork the engine instead of taking column snapshots.
    pub forks: bool,
    pub writer: WriterHandle,
    pub olap: Arc<olap::Runtime>,
    /// The threads that run queries.
    pub threads: Threads,
    /// Admits the queries that may run at once. Further queries wait in its queue.
    pub admission: Arc<Admission>,
    pub open_queries: OpenQueries,
    pub activities: Activities,
    pub connections: Connections,
    pub checkpoints: Arc<Checkpoints>,
    pub stats: Arc<Stats>,
}

impl Shared {
    /// The name of the way in which a query gets its snapshot.
    pub fn snapshots_by(&self) -> &'static str {
        if self.forks { mechanism::FORK.text() } else { self.mechanism }
    }
}

/// Limits on connections, busy and idle.
pub struct Connections {
    busy: Arc<Semaphore>,
    idle: Semaphore,
}

impl Default for Connections {
    fn default() -> Self {
        Connections { busy: Arc::new(Semaphore::new(MAX_CONNECTIONS)), idle: Semaphore::new(MAX_IDLE) }
    }
}

impl Connections {
    /// A place for a connection that has a request. If there are too many connections, tells the client so and returns
    /// `None`.
    pub fn admit(&self, peer: &mut Peer) -> Option<OwnedSemaphorePermit> {
        let place = self.busy.clone().try_acquire_owned().ok();
        if place.is_none() {
            // If the client has left, the refusal cannot be sent, and nobody needs it.
            let _ = peer.refuse(&Refusal::TooManyQueries { limit: MAX_OPEN_QUERIES as u32 });
        }
        place
    }

    /// Makes the connection idle until its next request; `None` if it must be closed.
    pub fn rest(&self, peer: &mut Peer, place: OwnedSemaphorePermit) -> Option<OwnedSemaphorePermit> {
        let idle = self.idle.try_acquire().ok()?;
        drop(place);
        let speaks = peer.speaks_within(IDLE);
        drop(idle);
        if speaks { self.admit(peer) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use protocol::frame::{self, Kind};
    use protocol::request::Request;

    use super::*;

    #[test]
    fn idle_connections_are_in_nobodys_way() {
        let connections = Connections { busy: Arc::new(Semaphore::new(1)), idle: Semaphore::new(1) };
        let pair = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (Peer::new(ours).unwrap(), theirs)
        };
        let ((mut one, mut client), (mut other, mut other_client)) = (pair(), pair());
        let mut payload = Vec::new();
        let place = connections.admit(&mut one).unwrap();
        thread::scope(|scope| {
            let resting = scope.spawn(|| connections.rest(&mut one, place).is_some());
            while connections.busy.available_permits() == 0 {
                thread::yield_now();
            }
            let place = connections.admit(&mut other).expect("the place of the one that rests");
            // The limit of idle connections is reached.
            assert!(connections.rest(&mut other, place).is_none());
            let _place = connections.admit(&mut other).expect("its place again");
            // A client that sends a request again while there are too many busy connections is refused like every other
            // client.
            frame::write(&mut client, Kind::Request, &Request::Status).unwrap();
            assert!(!resting.join().unwrap());
            assert_eq!(frame::read(&mut client, &mut payload).unwrap(), Some(Kind::Refused));
        });
        assert_eq!((connections.busy.available_permits(), connections.idle.available_permits()), (1, 1));
        // A client that sends a request keeps its connection. A client that hangs up or stays silent does not.
        let place = connections.admit(&mut other).unwrap();
        frame::write(&mut other_client, Kind::Request, &Request::Status).unwrap();
        let place = connections.rest(&mut other, place).expect("a place for the next request");
        other.read(&mut payload).unwrap();
        assert!(connections.rest(&mut other, place).is_none());
        assert_eq!((connections.busy.available_permits(), connections.idle.available_permits()), (1, 1));
    }
}
