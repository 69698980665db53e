//! Claims against their definition, and the number of times that waiting claims are woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};

use proptest::prelude::*;

use super::*;

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

enum Stage<'a> {
    Waits(Pin<Box<dyn Future<Output = Claim<'a>> + 'a>>),
    In(#[expect(dead_code, reason = "kept until it is dropped")] Claim<'a>),
    Gone,
}

/// A task that claims blocks and is polled only when woken, as by an executor.
struct Client<'a> {
    wish: Wish,
    stage: Stage<'a>,
    wakes: Arc<Wakes>,
    seen: usize,
    polls: usize,
}

impl<'a> Client<'a> {
    fn new(claims: &'a Claims, wish: Wish) -> Self {
        let stage = Stage::Waits(Box::pin(claims.claim(wish.blocks.clone(), wish.access)));
        let mut client = Self { wish, stage, wakes: Arc::default(), seen: 0, polls: 0 };
        client.poll();
        client
    }

    fn poll(&mut self) {
        let Stage::Waits(future) = &mut self.stage else { return };
        self.polls += 1;
        let waker = self.wakes.clone().into();
        if let Poll::Ready(claim) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.stage = Stage::In(claim);
        }
    }

    /// Polls it if it was woken; whether it was.
    fn run(&mut self) -> bool {
        let wakes = self.wakes.0.load(Ordering::Relaxed);
        let woken = std::mem::replace(&mut self.seen, wakes) < wakes;
        if woken {
            self.poll();
        }
        woken
    }

    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits(_))
    }

    fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone)
    }
}

fn run_all(clients: &mut [Client]) {
    while clients.iter_mut().filter_map(|client| client.run().then_some(())).count() > 0 {}
}

fn polls(clients: &[Client]) -> usize {
    clients.iter().map(|client| client.polls).sum()
}

/// Whether each claim waits, by the definition and by the claims that waited before.
fn expected(clients: &[Client]) -> Vec<bool> {
    let mut waits: Vec<bool> = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let Wish { blocks, access } = &client.wish;
        let in_the_way = |(earlier, waits): (&Client, &bool)| {
            let other = &earlier.wish;
            let overlap = other.blocks.start < blocks.end && blocks.start < other.blocks.end;
            let partial = *access == Access::Partial || other.access == Access::Partial;
            !earlier.is_gone() && overlap && (partial || *waits)
        };
        let blocked = clients[..at].iter().zip(&waits).any(in_the_way);
        waits.push(!client.is_gone() && blocked);
    }
    waits
}

fn assert_empty(claims: &Claims) {
    let table = claims.table.borrow();
    assert!(table.standing.is_empty() && table.passing.is_empty() && table.waiters.is_empty());
}

fn wish(start: u64, end: u64, access: Access) -> Wish {
    Wish { blocks: start..end, access }
}

#[derive(Clone, Debug)]
enum Act {
    Claim(u64, u64, bool),
    /// Drops one of the remaining claims, admitted or waiting.
    Drop(prop::sample::Index),
    /// Polls one that was not woken.
    Poll(prop::sample::Index),
    Run,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_u64, 1..4_u64, any::<bool>()).prop_map(|(s, n, p)| Act::Claim(s, s + n, p)),
        3 => any::<prop::sample::Index>().prop_map(Act::Drop),
        1 => any::<prop::sample::Index>().prop_map(Act::Poll),
        3 => Just(Act::Run),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn who_waits_is_as_defined(acts in prop::collection::vec(act(), 1..40)) {
        let claims = Claims::default();
        let mut clients: Vec<Client> = Vec::new();
        for act in acts {
            match act {
                Act::Claim(start, end, partial) => {
                    let access = if partial { Access::Partial } else { Access::Whole };
                    clients.push(Client::new(&claims, wish(start, end, access)));
                }
                Act::Drop(which) if !clients.is_empty() => {
                    which.get_mut(&mut clients).stage = Stage::Gone;
                }
                Act::Poll(which) if !clients.is_empty() => which.get_mut(&mut clients).poll(),
                _ => run_all(&mut clients),
            }
            // Nobody is in too early, also before all that were woken have run.
            let expected = expected(&clients);
            prop_assert!(clients.iter().zip(&expected).all(|(client, e)| client.waits() >= *e));
        }
        run_all(&mut clients);
        let waits: Vec<_> = clients.iter().map(Client::waits).collect();
        prop_assert_eq!(waits, expected(&clients));
        clients.clear();
        assert_empty(&claims);
    }
}

const MANY: usize = 500;

#[test]
fn each_of_many_changes_of_one_block_is_woken_once() {
    let claims = Claims::default();
    let one = wish(3, 4, Access::Partial);
    let mut clients: Vec<_> = (0..MANY).map(|_| Client::new(&claims, one.clone())).collect();
    for at in 0..MANY {
        assert!(!clients[at].waits() && clients[at + 1..].iter().all(Client::waits));
        clients[at].stage = Stage::Gone;
        run_all(&mut clients[at..]);
    }
    assert_eq!(polls(&clients), 2 * MANY - 1);
    assert_empty(&claims);
}

#[test]
fn each_whole_change_behind_one_of_a_part_is_woken_once() {
    let claims = Claims::default();
    let mut clients = vec![Client::new(&claims, wish(0, 1, Access::Partial))];
    clients.extend((0..MANY).map(|_| Client::new(&claims, wish(0, 2, Access::Whole))));
    clients[0].stage = Stage::Gone;
    run_all(&mut clients);
    assert!(!clients.iter().any(Client::waits));
    assert_eq!(polls(&clients), 1 + 2 * MANY);
}

#[test]
fn changes_of_other_blocks_wake_nobody() {
    let claims = Claims::default();
    let held = Client::new(&claims, wish(0, 1, Access::Partial));
    let mut waits = Client::new(&claims, wish(0, 1, Access::Partial));
    for access in [Access::Partial, Access::Whole] {
        drop(Client::new(&claims, wish(1, 2, access)));
        // Nor does one behind it that gives up.
        drop(Client::new(&claims, wish(0, 1, access)));
    }
    assert!(!waits.run() && waits.waits());
    drop(held);
    assert!(waits.run() && !waits.waits());
}

#[test]
fn many_that_give_up_wake_each_other_once_at_the_most() {
    let claims = Claims::default();
    let one = wish(0, 1, Access::Partial);
    let mut clients: Vec<_> = (0..MANY).map(|_| Client::new(&claims, one.clone())).collect();
    clients[..MANY - 1].iter_mut().for_each(|client| client.stage = Stage::Gone);
    run_all(&mut clients);
    assert!(!clients[MANY - 1].waits());
    assert_eq!(polls(&clients), MANY + 1);
    clients.clear();
    assert_empty(&claims);
}
