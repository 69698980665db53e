//! The values of features, as they are at first and as a host has set them.

/// Feature identifiers.
pub(super) mod feature {
    pub(in crate::admin) const ARBITRATION: u8 = 0x01;
    pub(in crate::admin) const POWER_MANAGEMENT: u8 = 0x02;
    pub(in crate::admin) const TEMPERATURE_THRESHOLD: u8 = 0x04;
    pub(in crate::admin) const ERROR_RECOVERY: u8 = 0x05;
    pub(in crate::admin) const VOLATILE_WRITE_CACHE: u8 = 0x06;
    pub(in crate::admin) const NUMBER_OF_QUEUES: u8 = 0x07;
    pub(in crate::admin) const WRITE_ATOMICITY: u8 = 0x0A;
    pub(in crate::admin) const ASYNC_EVENTS: u8 = 0x0B;
    pub(in crate::admin) const KEEP_ALIVE: u8 = 0x0F;
    pub(in crate::admin) const COMMAND_SET_PROFILE: u8 = 0x19;
    pub(in crate::admin) const HOST_IDENTIFIER: u8 = 0x81;
}

/// Values that a host may change and read again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    arbitration: u32,
    temperature_threshold: u32,
    error_recovery: u32,
    write_atomicity: u32,
    async_events: u32,
    /// Off: every write is durable when it completes.
    pub(crate) write_cache: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            arbitration: 0,
            // 343 K, far above the temperature that the log page reports.
            temperature_threshold: 0x157,
            error_recovery: 0,
            write_atomicity: 0,
            async_events: 0,
            write_cache: true,
        }
    }
}

impl Features {
    /// The value of a feature that is no more than its value.
    pub(super) fn value(&mut self, feature: u8, is_discovery: bool) -> Option<&mut u32> {
        match feature {
            feature::ASYNC_EVENTS => Some(&mut self.async_events),
            _ if is_discovery => None,
            feature::ARBITRATION => Some(&mut self.arbitration),
            feature::TEMPERATURE_THRESHOLD => Some(&mut self.temperature_threshold),
            feature::ERROR_RECOVERY => Some(&mut self.error_recovery),
            feature::WRITE_ATOMICITY => Some(&mut self.write_atomicity),
            _ => None,
        }
    }
}
