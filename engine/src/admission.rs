//! Admission of queries. `anker.max_queries` queries run at once, and all further ones wait for a place.
//!
//! A free place goes to the user who has the fewest places; among users who have equally few, to the query that came
//! first. One additional place is reserved for users who have no place, so that long queries of one user cannot block
//! another user. A user may also have a limit of places (`anker.max_user_queries`). A query waits no longer than its
//! request allows; then the heap answers it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::request::Refusal;
use tokio::sync::oneshot;

/// The number of queries that may be open at once. Each open query has a thread, a connection, and memory for its
/// client. A cursor that nobody reads counts as an open query, too.
pub const MAX_OPEN_QUERIES: usize = 400;
/// The number of queries that one user may have open.
const MAX_OPEN_OF_USER: usize = 350;

/// The oid of a user.
pub type User = u32;

/// The open queries: those that run, those that wait for a place, and those whose client does not read the result.
#[derive(Default)]
pub struct OpenQueries(Mutex<Counts>);

/// An open query. It is counted until this value is dropped.
pub struct Open<'a> {
    all: &'a OpenQueries,
    user: User,
}

impl OpenQueries {
    pub fn open(&self, user: User) -> Result<Open<'_>, Refusal> {
        let mut counts = self.0.lock();
        if counts.all >= MAX_OPEN_QUERIES {
            return Err(Refusal::TooManyQueries { limit: MAX_OPEN_QUERIES as u32 });
        }
        if counts.of(user) >= MAX_OPEN_OF_USER {
            return Err(Refusal::TooManyOfUser { limit: MAX_OPEN_OF_USER as u32 });
        }
        counts.add(user);
        Ok(Open { all: self, user })
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.all.0.lock().remove(self.user);
    }
}

/// The number of queries of each user.
#[derive(Default)]
struct Counts {
    all: usize,
    by_user: HashMap<User, usize>,
}

impl Counts {
    fn of(&self, user: User) -> usize {
        self.by_user.get(&user).copied().unwrap_or(0)
    }

    fn add(&mut self, user: User) {
        self.all += 1;
        *self.by_user.entry(user).or_default() += 1;
    }

    fn remove(&mut self, user: User) {
        self.all -= 1;
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }
}

/// Hands out places.
pub struct Admission(Mutex<Queue<oneshot::Sender<Place>>>);

/// The permission to run. Dropping it returns the place.
pub struct Place {
    admission: Arc<Admission>,
    user: User,
}

impl Admission {
    pub fn new(places: usize) -> Admission {
        Admission(Mutex::new(Queue::new(places)))
    }

    /// Requests a place, which is sent through the channel when it is this query's turn. The query waits while its user
    /// has `limit` places. A query stops waiting by dropping the receiver.
    pub fn ask(self: &Arc<Admission>, user: User, limit: Option<u32>) -> oneshot::Receiver<Place> {
        let (turn, place) = oneshot::channel();
        self.0.lock().wait(Waiting { user, limit: limit.map_or(usize::MAX, |limit| limit as usize), turn });
        self.hand_out();
        place
    }

    /// Whether the user has as many places as the limit allows.
    pub fn has_all(&self, user: User, limit: u32) -> bool {
        self.0.lock().running.of(user) >= limit as usize
    }

    fn hand_out(self: &Arc<Admission>) {
        loop {
            let next = {
                let mut queue = self.0.lock();
                queue.forget(oneshot::Sender::is_closed);
                queue.admit()
            };
            let Some((user, turn)) = next else { return };
            // The lock must not be held here: if the receiver is gone, the place is dropped at once, and its drop takes
            // the lock.
            let _ = turn.send(Place { admission: self.clone(), user });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.0.lock().leave(self.user);
        self.admission.hand_out();
    }
}

/// The running queries, and the waiting queries in the order of their arrival. A `W` is the means to tell a waiting
/// query that it may run.
struct Queue<W> {
    places: usize,
    running: Counts,
    waiting: Vec<Waiting<W>>,
}

struct Waiting<W> {
    user: User,
    /// The number of places that the user may have, including that of this query.
    limit: usize,
    turn: W,
}

impl<W> Queue<W> {
    fn new(places: usize) -> Queue<W> {
        Queue { places, running: Counts::default(), waiting: Vec::new() }
    }

    fn wait(&mut self, waiting: Waiting<W>) {
        self.waiting.push(waiting);
    }

    fn forget(&mut self, is_gone: impl Fn(&W) -> bool) {
        self.waiting.retain(|waiting| !is_gone(&waiting.turn));
    }

    /// Admits the next query that may run, if there is one.
    fn admit(&mut self) -> Option<(User, W)> {
        let counts = self.waiting.iter().map(|waiting| (self.running.of(waiting.user), waiting.limit)).enumerate();
        let allowed = counts.filter(|&(_, (running, limit))| running < limit);
        let (next, running) = allowed.map(|(at, (running, _))| (at, running)).min_by_key(|&(_, running)| running)?;
        let places = self.places + usize::from(running == 0);
        if self.running.all >= places {
            return None;
        }
        let Waiting { user, turn, .. } = self.waiting.remove(next);
        self.running.add(user);
        Some((user, turn))
    }

    /// Returns the place of a query that has run.
    fn leave(&mut self, user: User) {
        self.running.remove(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: User = 1;
    const BOB: User = 2;
    const EVE: User = 3;

    impl Queue<u32> {
        fn comes(&mut self, user: User, turn: u32) {
            self.wait(Waiting { user, limit: usize::MAX, turn });
        }
    }

    /// Admits queries until none may run any more, and returns their users and numbers.
    fn admitted(queue: &mut Queue<u32>) -> Vec<(User, u32)> {
        std::iter::from_fn(|| queue.admit()).collect()
    }

    #[test]
    fn one_user_has_as_many_places_as_there_are_and_the_others_wait_in_order() {
        let mut queue = Queue::new(2);
        (0..5).for_each(|number| queue.comes(ANN, number));
        assert_eq!(admitted(&mut queue), [(ANN, 0), (ANN, 1)]);
        queue.leave(ANN);
        assert_eq!(admitted(&mut queue), [(ANN, 2)]);
        queue.leave(ANN);
        queue.leave(ANN);
        assert_eq!(admitted(&mut queue), [(ANN, 3), (ANN, 4)]);
    }

    #[test]
    fn a_user_without_a_place_does_not_wait_for_one_who_has_all() {
        let mut queue = Queue::new(2);
        (0..9).for_each(|number| queue.comes(ANN, number));
        assert_eq!(admitted(&mut queue).len(), 2);
        queue.comes(BOB, 10);
        queue.comes(BOB, 11);
        queue.comes(EVE, 20);
        // Bob gets the one additional place, so none is left for Eve.
        assert_eq!(admitted(&mut queue), [(BOB, 10)]);
        queue.leave(ANN);
        assert_eq!(admitted(&mut queue), [(EVE, 20)]);
        // All users have a place, so nobody gets the additional one.
        assert_eq!((queue.running.all, admitted(&mut queue)), (3, vec![]));
        queue.leave(EVE);
        assert_eq!(admitted(&mut queue), []);
        queue.leave(BOB);
        assert_eq!(admitted(&mut queue), [(BOB, 11)]);
    }

    #[test]
    fn a_free_place_goes_to_who_has_the_fewest() {
        let mut queue = Queue::new(4);
        (0..3).for_each(|number| queue.comes(ANN, number));
        queue.comes(BOB, 10);
        assert_eq!(admitted(&mut queue).len(), 4);
        queue.comes(ANN, 3);
        queue.comes(BOB, 11);
        queue.leave(ANN);
        assert_eq!(admitted(&mut queue), [(BOB, 11)]);
        // Among equals, the order of arrival decides.
        queue.comes(BOB, 12);
        queue.leave(BOB);
        queue.leave(ANN);
        assert_eq!(admitted(&mut queue), [(ANN, 3), (BOB, 12)]);
    }

    #[test]
    fn a_user_at_the_limit_waits_and_is_in_nobodys_way() {
        let mut queue = Queue::new(3);
        let limited = |turn| Waiting { user: ANN, limit: 1, turn };
        (0..3).for_each(|turn| queue.wait(limited(turn)));
        queue.comes(BOB, 10);
        queue.comes(BOB, 11);
        queue.comes(BOB, 12);
        assert_eq!(admitted(&mut queue), [(ANN, 0), (BOB, 10), (BOB, 11)]);
        queue.leave(BOB);
        assert_eq!(admitted(&mut queue), [(BOB, 12)]);
        queue.leave(ANN);
        assert_eq!(admitted(&mut queue), [(ANN, 1)]);
        // The limit is that of the session that asks.
        queue.leave(BOB);
        queue.comes(ANN, 3);
        assert_eq!(admitted(&mut queue), [(ANN, 3)]);
    }

    /// Each waiting query is admitted after a limited number of freed places, however often other users ask.
    #[test]
    fn no_user_starves() {
        let mut queue = Queue::new(3);
        let mut running = Vec::new();
        queue.comes(EVE, 0);
        let mut turn = 0;
        for number in 1..1000 {
            queue.comes(ANN, number);
            queue.comes(BOB, number);
            if running.len() >= 3 {
                queue.leave(running.remove(0));
            }
            let admitted = admitted(&mut queue);
            running.extend(admitted.iter().map(|(user, _)| *user));
            if admitted.iter().any(|(user, _)| *user == EVE) {
                turn += 1;
                queue.comes(EVE, number);
            }
        }
        assert!(turn > 300, "one in three, but only {turn} times");
    }

    #[test]
    fn one_user_cannot_open_all_queries_that_may_be_open() {
        let queries = OpenQueries::default();
        let mut of_ann: Vec<_> = (0..MAX_OPEN_OF_USER).map(|_| queries.open(ANN).unwrap()).collect();
        assert!(matches!(queries.open(ANN), Err(Refusal::TooManyOfUser { .. })));
        let of_bob: Vec<_> = std::iter::from_fn(|| queries.open(BOB).ok()).collect();
        assert_eq!(of_bob.len(), MAX_OPEN_QUERIES - MAX_OPEN_OF_USER);
        assert!(matches!(queries.open(EVE), Err(Refusal::TooManyQueries { .. })));
        of_ann.pop();
        assert!(queries.open(EVE).is_ok());
        drop((of_ann, of_bob));
        assert_eq!(queries.0.lock().all, 0);
    }

    #[tokio::test]
    async fn who_does_not_wait_any_more_costs_nobody_a_place() {
        let admission = Arc::new(Admission::new(1));
        let first = admission.ask(ANN, None).await.unwrap();
        let (gone, taken) = (admission.ask(ANN, None), admission.ask(ANN, None));
        drop(gone);
        drop(first);
        let second = taken.await.unwrap();
        // The query gets the place, but drops the receiver without reading it. The place must return to the queue.
        let unread = admission.ask(ANN, None);
        drop(second);
        drop(unread);
        let queue = admission.0.lock();
        assert_eq!((queue.running.all, queue.waiting.len(), queue.running.by_user.len()), (0, 0, 0));
    }
}
