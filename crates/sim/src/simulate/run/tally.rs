//! Counts over histories.

/// Counts over histories, as a measure of a run's coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Histories run.
    pub scenarios: u64,
    /// Stops of the engine.
    pub crashes: u64,
    /// Stops with a power loss.
    pub power_losses: u64,
    /// Stops during recovery.
    pub crashes_in_recovery: u64,
    /// The most crashes in a row without a finished recovery.
    pub deepest: u64,
    /// Finished recoveries after a crash, verified block by block.
    pub recoveries: u64,
    /// Recoveries without every member.
    pub degraded_recoveries: u64,
    /// Refused starts with too few drives.
    pub refusals: u64,
    /// Starts of drives left behind.
    #[serde(rename = "apart")]
    pub split_brains: u64,
    /// Recoveries verified by the offline checker.
    pub offline_checks: u64,
    /// Completed requests of users.
    pub requests: u64,
    /// Blocks read by them.
    pub blocks_read: u64,
    /// Injected faults.
    pub faults: u64,
    /// Drives rebuilt.
    pub rebuilds: u64,
    /// Former members put back with what they had.
    pub readded: u64,
    /// Finished scrubs.
    pub scrubs: u64,
    /// Segments reclaimed.
    pub segments_reclaimed: u64,
    /// Steps of the engine's executor, in all lives.
    pub steps: u64,
    /// Commands of the engine to the drives that are there at the end of the history.
    pub commands: u64,
}

impl Tally {
    /// Adds the counts of another run.
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
        self.readded += other.readded;
        self.scrubs += other.scrubs;
        self.segments_reclaimed += other.segments_reclaimed;
        self.steps += other.steps;
        self.commands += other.commands;
    }
}
