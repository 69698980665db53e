//! The subsystem, who may connect to it, and its controllers.
//!
//! Controllers are dynamic: each Connect to an admin queue makes one, which lives until that
//! connection ends or its keep-alive timer expires. Its I/O queues are further connections, which
//! name the controller. A queue is known by a serial number as well, so that a connection whose
//! controller was reset or removed can never act on the next controller of that number.

use std::collections::{BTreeMap, BTreeSet};

use crate::connect::{ConnectRequest, Refusal};
use crate::controller::Controller;
use crate::nqn::{DISCOVERY_NQN, check_nqn};
use crate::status::Status;
use crate::subsystem::{CommandSets, Namespace, Subsystem};

/// Controller numbers start at 1 and end below the reserved ones.
const CONTROLLER_ID_MAX: u16 = 0xFFEF;

/// The hosts that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// All that reach the port.
    Any,
    /// Those with one of these names. A name is no proof of identity.
    Listed(BTreeSet<String>),
}

/// The number of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControllerId(pub u16);

/// A shutdown that a host has asked for. A reset ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    pub(crate) controller: ControllerId,
    pub(crate) serial: u64,
}

/// A queue of a controller, for as long as both last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueKey {
    pub(crate) controller: ControllerId,
    pub(crate) queue: u16,
    serial: u64,
}

/// The subsystem and its controllers; shared by all connections of a server.
pub struct Target {
    subsystem: Subsystem,
    hosts: Hosts,
    controllers_max: usize,
    controllers: BTreeMap<ControllerId, Controller>,
    last_id: u16,
    last_serial: u64,
}

impl Target {
    /// A target without controllers, of which it may have so many.
    ///
    /// # Panics
    /// If a name or a namespace is not possible; check names with [`check_nqn`].
    #[must_use]
    pub fn new(subsystem: Subsystem, hosts: Hosts, controllers_max: usize) -> Self {
        assert_eq!(check_nqn(&subsystem.nqn), Ok(()), "the name was checked");
        assert!(subsystem.namespaces.iter().all(|namespace| namespace.blocks > 0));
        let mut zones = subsystem.namespaces.iter().filter_map(|namespace| namespace.zones);
        assert!(zones.all(|zones| zones.size > 0 && zones.append_blocks > 0));
        assert!(subsystem.namespaces.len() <= 1024, "one list names all namespaces");
        Self {
            subsystem,
            hosts,
            controllers_max,
            controllers: BTreeMap::new(),
            last_id: 0,
            last_serial: 0,
        }
    }

    /// The subsystem.
    #[must_use]
    pub fn subsystem(&self) -> &Subsystem {
        &self.subsystem
    }

    /// Controllers that hosts are connected to, discovery controllers too.
    #[must_use]
    pub fn controllers(&self) -> usize {
        self.controllers.len()
    }

    /// The namespace of an identifier, if it is of one of these command sets.
    pub(crate) fn namespace(&self, id: u32, sets: CommandSets) -> Result<&Namespace, Status> {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let found = index.and_then(|index| self.subsystem.namespaces.get(index));
        found.filter(|namespace| sets.has(namespace)).ok_or(Status::INVALID_NAMESPACE)
    }

    /// Blocks of a Zone Append to any namespace; `None` if none is zoned.
    pub(crate) fn append_blocks(&self) -> Option<u32> {
        let zones = self.subsystem.namespaces.iter().filter_map(|namespace| namespace.zones);
        zones.map(|zones| zones.append_blocks).min()
    }

    /// Removes controllers whose hosts were silent for longer than they had promised to be. Their
    /// connections find out by [`Connection::is_stale`](crate::Connection::is_stale).
    pub fn expire(&mut self, now_ms: u64) {
        self.controllers.retain(|_, controller| !controller.is_expired(now_ms));
    }

    /// Completes the shutdown of a controller, after everything written was made durable.
    pub fn shut_down(&mut self, shutdown: Shutdown) {
        if let Some(controller) = self.controllers.get_mut(&shutdown.controller) {
            controller.finish_shutdown(shutdown.serial);
        }
    }

    pub(crate) fn controller(&mut self, key: QueueKey) -> Option<&mut Controller> {
        let found = self.controllers.get_mut(&key.controller);
        found.filter(|controller| controller.serial(key.queue) == key.serial)
    }

    pub(crate) fn has(&self, key: QueueKey) -> bool {
        let found = self.controllers.get(&key.controller);
        found.is_some_and(|controller| controller.serial(key.queue) == key.serial)
    }

    /// A serial number that no queue had before.
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// Admits a queue to a new controller, or to the one that it names.
    pub(crate) fn connect(
        &mut self,
        request: &ConnectRequest,
        now_ms: u64,
    ) -> Result<QueueKey, Refusal> {
        let in_data = |offset| Refusal::Parameter { offset, in_data: true };
        let is_discovery = request.subsystem_nqn == DISCOVERY_NQN;
        if !is_discovery && request.subsystem_nqn != self.subsystem.nqn {
            return Err(in_data(256));
        }
        if let Hosts::Listed(names) = &self.hosts
            && !names.contains(&request.host_nqn)
        {
            return Err(Refusal::Status(Status::CONNECT_HOST));
        }
        if request.queue > 0 {
            return self.connect_io(request);
        }
        if request.controller != 0xFFFF {
            return Err(in_data(16));
        }
        let controller = self.free_id().ok_or(Refusal::Status(Status::CONTROLLER_BUSY))?;
        let serial = self.next_serial();
        let made = Controller::new(request, is_discovery, serial, now_ms);
        self.controllers.insert(controller, made);
        Ok(QueueKey { controller, queue: 0, serial })
    }

    fn connect_io(&mut self, request: &ConnectRequest) -> Result<QueueKey, Refusal> {
        let id = ControllerId(request.controller);
        let Some(controller) = self.controllers.get_mut(&id) else {
            return Err(Refusal::Parameter { offset: 16, in_data: true });
        };
        controller.admit_queue(request)?;
        let serial = controller.serial(request.queue);
        Ok(QueueKey { controller: id, queue: request.queue, serial })
    }

    /// The next number in turn, so that one is not used again soon.
    fn free_id(&mut self) -> Option<ControllerId> {
        if self.controllers.len() >= self.controllers_max.min(CONTROLLER_ID_MAX.into()) {
            return None;
        }
        loop {
            self.last_id = self.last_id % CONTROLLER_ID_MAX + 1;
            let id = ControllerId(self.last_id);
            if !self.controllers.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// The connection of a queue has ended; with the admin queue goes the controller.
    pub(crate) fn disconnect(&mut self, key: QueueKey) {
        if key.queue > 0 {
            if let Some(controller) = self.controller(key) {
                controller.release_queue(key.queue);
            }
        } else if self.has(key) {
            self.controllers.remove(&key.controller);
        }
    }
}
