//! Counts over the histories that were run.

/// What was done, for whoever wants to know what a run was worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Histories run.
    pub scenarios: u64,
    /// Times that the engine was stopped.
    pub crashes: u64,
    /// Those of them in which the power was lost, too.
    pub power_losses: u64,
    /// Those of them that fell into recovery.
    pub crashes_in_recovery: u64,
    /// The most crashes in a row without a recovery that came to its end.
    pub deepest: u64,
    /// Recoveries after a crash that came to their end and were verified, block by block.
    pub recoveries: u64,
    /// Those of them without every member.
    pub degraded_recoveries: u64,
    /// Starts with too few drives, refused.
    pub refusals: u64,
    /// Times that drives left behind were started apart.
    #[serde(rename = "apart")]
    pub split_brains: u64,
    /// Recoveries that the offline checker looked at.
    pub offline_checks: u64,
    /// Requests of users that ended.
    pub requests: u64,
    /// Reads among them, of blocks.
    pub blocks_read: u64,
    /// Faults planned or done.
    pub faults: u64,
    /// Drives rebuilt.
    pub rebuilds: u64,
    /// Scrubs that came to their end.
    pub scrubs: u64,
    /// Segments reclaimed.
    pub segments_reclaimed: u64,
}

impl Tally {
    /// Adds what another run was worth.
    pub fn add(&mut self, other: &Self) {
        self.scenarios += other.scenarios;
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.deepest = self.deepest.max(other.deepest);
        self.recoveries += other.recoveries;
        self.degraded_recoveries += other.degraded_recoveries;
        self.refusals += other.refusals;
        self.split_brains += other.split_brains;
        self.offline_checks += other.offline_checks;
        self.requests += other.requests;
        self.blocks_read += other.blocks_read;
        self.faults += other.faults;
        self.rebuilds += other.rebuilds;
        self.scrubs += other.scrubs;
        self.segments_reclaimed += other.segments_reclaimed;
    }
}
