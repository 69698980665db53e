//! A list of planned faults, and which of them hits a command.

use super::action::FaultAction;
use super::seeded::SeededFaults;

use std::ops::Range;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{ZoneId, ZoneOffset};

use crate::{CommandKind, Request};

/// Which commands a fault hits. The default is the next command of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Kinds of commands; empty for all.
    pub kinds: Vec<CommandKind>,
    /// Only commands to this zone.
    pub zone: Option<ZoneId>,
    /// Only commands that touch one of these blocks of their zone. Appends touch the blocks they
    /// would land on. `None` for all, and for commands without blocks.
    pub offsets: Option<Range<u32>>,
    /// Matching commands to let pass first.
    pub skip: u64,
    /// How many are hit after that.
    pub times: u64,
}

impl Default for Selector {
    fn default() -> Self {
        Self { kinds: Vec::new(), zone: None, offsets: None, skip: 0, times: 1 }
    }
}

impl Selector {
    /// The next command of one kind.
    #[must_use]
    pub fn next(kind: CommandKind) -> Self {
        Self { kinds: vec![kind], ..Self::default() }
    }

    /// The same, in one zone only.
    #[must_use]
    pub fn in_zone(self, zone: ZoneId) -> Self {
        Self { zone: Some(zone), ..self }
    }

    /// The same, only if a block of the range is touched.
    #[must_use]
    pub fn touching(self, offsets: Range<u32>) -> Self {
        Self { offsets: Some(offsets), ..self }
    }

    /// The same, after letting `skip` matching commands pass.
    #[must_use]
    pub fn after(self, skip: u64) -> Self {
        Self { skip, ..self }
    }

    /// The same, for `times` matching commands.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// The same, for every matching command from then on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    fn matches(&self, request: &Request, write_pointer: ZoneOffset) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.contains(&request.kind());
        let zone = self.zone.is_none() || self.zone == request.zone();
        kind && zone
            && self.offsets.as_ref().is_none_or(|offsets| {
                touched(request, write_pointer)
                    .is_some_and(|blocks| blocks.start < offsets.end && offsets.start < blocks.end)
            })
    }
}

/// One planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The commands it hits.
    pub selector: Selector,
    /// The effect.
    pub action: FaultAction,
}

/// The faults still to come, in order of precedence.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    faults: Vec<Fault>,
    seeded: Option<SeededFaults>,
}

/// The plan's decision about one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fired {
    pub(crate) delay: Nanos,
    pub(crate) action: Option<FaultAction>,
}

impl FaultPlan {
    /// Adds a fault behind the others.
    pub fn add(&mut self, selector: Selector, action: FaultAction) -> &mut Self {
        self.faults.push(Fault { selector, action });
        self
    }

    /// Faults that have not used themselves up.
    #[must_use]
    pub fn pending(&self) -> &[Fault] {
        &self.faults
    }

    /// Lets faults happen by a seed from now on, or none any more.
    pub fn set_seeded(&mut self, seeded: Option<SeededFaults>) {
        self.seeded = seeded;
    }

    /// The faults by seed, if there are any.
    pub fn seeded_mut(&mut self) -> Option<&mut SeededFaults> {
        self.seeded.as_mut()
    }

    /// Forgets every fault, those by seed too.
    pub fn clear(&mut self) {
        self.faults.clear();
        self.seeded = None;
    }

    pub(crate) fn fire(&mut self, request: &Request, write_pointer: ZoneOffset) -> Fired {
        let mut fired = Fired::default();
        if !self.faults.is_empty() {
            self.fire_listed(request, write_pointer, &mut fired);
        }
        if let (Some(seeded), None) = (&mut self.seeded, fired.action) {
            fired.action = seeded.draw(request, write_pointer);
        }
        fired
    }

    fn fire_listed(&mut self, request: &Request, write_pointer: ZoneOffset, fired: &mut Fired) {
        for Fault { selector, action } in &mut self.faults {
            let slow = matches!(action, FaultAction::Slow(_));
            let heard = action.affects(request.kind()) && selector.matches(request, write_pointer);
            if !heard || (fired.action.is_some() && !slow) {
                continue;
            }
            if selector.skip > 0 {
                selector.skip -= 1;
                continue;
            }
            if selector.times == 0 {
                continue;
            }
            // For ever is for ever.
            selector.times -= u64::from(selector.times != u64::MAX);
            match action {
                FaultAction::Slow(delay) => fired.delay += *delay,
                action => fired.action = Some(*action),
            }
        }
        self.faults.retain(|fault| fault.selector.times > 0);
    }
}

/// The blocks of its zone that a command touches.
fn touched(request: &Request, write_pointer: ZoneOffset) -> Option<Range<u32>> {
    let (start, blocks) = match request {
        Request::Read { at, blocks } | Request::Write { at, blocks, .. } => (at.offset, *blocks),
        Request::Append { blocks, .. } => (write_pointer, *blocks),
        Request::Manage { .. }
        | Request::ManageAll { .. }
        | Request::SetExtension { .. }
        | Request::Report { .. }
        | Request::ChangedZones
        | Request::Flush => return None,
    };
    Some(start.0..start.0.saturating_add(blocks.0))
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::{BlockCount, Status, ZoneAddress};

    use super::*;

    const START: ZoneOffset = ZoneOffset(0);

    fn read(zone: u32, offset: u32, blocks: u32) -> Request {
        Request::Read { at: ZoneAddress::new(ZoneId(zone), offset), blocks: BlockCount(blocks) }
    }

    #[test]
    fn a_selector_skips_then_hits_then_is_used_up() {
        let mut plan = FaultPlan::default();
        let selector = Selector::next(CommandKind::Read).in_zone(ZoneId(1)).touching(4..6);
        plan.add(selector.after(1).times(2), FaultAction::Fail(Status::InternalError));
        let mut fires = |request| plan.fire(&request, START).action.is_some();
        assert!(!fires(read(1, 0, 5)), "skipped");
        assert!(!fires(read(1, 0, 4)), "touches 0..4 only");
        assert!(!fires(read(0, 4, 1)));
        assert!(!fires(Request::Flush));
        assert!(fires(read(1, 5, 9)));
        assert!(fires(read(1, 3, 2)));
        assert!(!fires(read(1, 3, 2)));
        assert!(plan.pending().is_empty());
    }

    #[test]
    fn delays_add_up_and_the_first_other_fault_decides() {
        let mut plan = FaultPlan::default();
        plan.add(Selector::default(), FaultAction::Lost)
            .add(Selector::default().always(), FaultAction::Slow(Nanos(5)))
            .add(Selector::default(), FaultAction::Fail(Status::InternalError))
            .add(Selector::default(), FaultAction::Gone)
            .add(Selector::default(), FaultAction::Slow(Nanos(7)));
        let fired = plan.fire(&read(0, 0, 1), START);
        assert_eq!(fired.delay, Nanos(12));
        assert_eq!(fired.action, Some(FaultAction::Fail(Status::InternalError)));
        assert_eq!(plan.fire(&Request::Flush, START).action, Some(FaultAction::Gone));
        assert_eq!(plan.pending().len(), 2, "no write came for the lost one");
    }
}
