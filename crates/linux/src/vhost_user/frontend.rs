//! The setup of a virtual machine: features, memory, queues.
//!
//! The library reads messages and calls this file. Messages that change anything are processed only
//! while the queues are idle.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandler, VhostUserVirtioFeatures,
};

use super::config::{
    FEATURE_EVENT_INDEX, FEATURE_FLUSH, QUEUE_SIZE_MAX, QUEUES_MAX, SPACE_BYTES, features, space,
};
use super::inflight;
use super::memory::Memory;
use super::shared::Shared;
use super::vring::{Addresses, Vring};

/// The set-up of one virtual machine.
pub(super) struct Frontend {
    shared: Rc<Shared>,
    vrings: Vec<Rc<Vring>>,
    features: Cell<u64>,
    memory: RefCell<Option<Rc<Memory>>>,
}

impl Frontend {
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "the library wants an Arc; one thread has it"
    )]
    pub(super) fn new(shared: &Rc<Shared>) -> Arc<Self> {
        let vrings = (0..QUEUES_MAX).map(|_| Rc::new(Vring::new(shared))).collect();
        Arc::new(Self {
            shared: shared.clone(),
            vrings,
            features: Cell::new(0),
            memory: RefCell::default(),
        })
    }

    /// Lets no queue take requests, and waits until those taken are answered.
    pub(super) async fn rest(&self) {
        for vring in &self.vrings {
            vring.begin_rest();
        }
        for vring in &self.vrings {
            vring.at_rest().await;
        }
        let idle = self.vrings.iter().all(|vring| vring.is_idle());
        assert!(idle, "a resting queue takes no new request");
    }

    /// Lets all queues that are set up take requests.
    pub(super) fn resume(&self) {
        let memory = self.memory.borrow().clone();
        for vring in &self.vrings {
            vring.resume(memory.as_ref());
        }
    }

    fn offered(&self) -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        features(&self.shared.device.info()) | protocol
    }

    fn vring(&self, index: impl TryInto<usize>) -> Result<&Rc<Vring>> {
        let index = index.try_into().map_err(|_| Error::InvalidParam)?;
        self.vrings.get(index).ok_or(Error::InvalidParam)
    }

    fn assert_idle(&self) {
        let idle = self.vrings.iter().all(|vring| vring.is_idle());
        assert!(idle, "the set-up changes only without requests in flight");
    }

    fn forget(&self) {
        self.assert_idle();
        for vring in &self.vrings {
            vring.reset();
        }
        self.features.set(0);
        self.memory.take();
    }
}

/// An event counter must not block, whatever kind of file it is.
fn event(file: Option<File>) -> Result<Option<OwnedFd>> {
    let Some(file) = file else { return Ok(None) };
    let descriptor = OwnedFd::from(file);
    let flags = fcntl_getfl(&descriptor).map_err(|error| Error::ReqHandlerError(error.into()))?;
    fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)
        .map_err(|error| Error::ReqHandlerError(error.into()))?;
    Ok(Some(descriptor))
}

const NOT_OFFERED: Error = Error::InvalidOperation("this was not offered");

impl VhostUserBackendReqHandler for Frontend {
    fn set_owner(&self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&self) -> Result<()> {
        self.forget();
        Ok(())
    }

    fn reset_device(&self) -> Result<()> {
        self.forget();
        Ok(())
    }

    fn get_features(&self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        self.features.set(features);
        // Queues of a peer without the enable message count as enabled.
        let enabled = features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0;
        for vring in &self.vrings {
            vring.set_event_index(features & FEATURE_EVENT_INDEX != 0);
            vring.write_through.set(features & FEATURE_FLUSH == 0);
            if enabled {
                vring.enabled.set(true);
            }
        }
        Ok(())
    }

    fn set_mem_table(
        &self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        self.assert_idle();
        let memory = Memory::map(regions, files)
            .map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        self.memory.replace(Some(Rc::new(memory)));
        Ok(None)
    }

    fn set_vring_num(&self, index: u32, size: u32) -> Result<()> {
        match u16::try_from(size) {
            Ok(size) if size.is_power_of_two() && size <= QUEUE_SIZE_MAX => {
                self.vring(index)?.set_size(size)
            }
            _ => Err(Error::InvalidParam),
        }
    }

    fn set_vring_addr(
        &self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let addresses = Addresses { descriptors, available, used };
        self.vring(index)?.addresses.set(Some(addresses));
        Ok(())
    }

    fn set_vring_base(&self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.vring(index)?.set_base(base);
        Ok(())
    }

    fn get_vring_base(&self, index: u32) -> Result<VhostUserVringState> {
        let vring = self.vring(index)?;
        // It runs again when it is given a counter again.
        vring.kick.take();
        Ok(VhostUserVringState::new(index, u32::from(vring.base())))
    }

    fn set_vring_kick(&self, index: u8, file: Option<File>) -> Result<()> {
        let kick = event(file)?.map(Rc::new);
        // Without one the queue would have to be looked at all the time.
        if kick.is_none() {
            return Err(Error::InvalidOperation("queues are not polled"));
        }
        self.vring(index)?.kick.replace(kick);
        Ok(())
    }

    fn set_vring_call(&self, index: u8, file: Option<File>) -> Result<()> {
        self.vring(index)?.set_call(event(file)?);
        Ok(())
    }

    fn set_vring_err(&self, index: u8, file: Option<File>) -> Result<()> {
        self.vring(index)?.error.replace(event(file)?);
        Ok(())
    }

    fn get_protocol_features(&self) -> Result<VhostUserProtocolFeatures> {
        type Features = VhostUserProtocolFeatures;
        Ok(Features::MQ | Features::CONFIG | Features::RESET_DEVICE | Features::INFLIGHT_SHMFD)
    }

    fn set_protocol_features(&self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&self) -> Result<u64> {
        Ok(u64::from(QUEUES_MAX))
    }

    fn set_vring_enable(&self, index: u32, enable: bool) -> Result<()> {
        self.vring(index)?.enabled.set(enable);
        Ok(())
    }

    fn get_config(&self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let start = usize::try_from(offset).map_err(|_| Error::InvalidParam)?;
        let length = usize::try_from(size).map_err(|_| Error::InvalidParam)?;
        let end = start.checked_add(length).filter(|end| *end <= SPACE_BYTES);
        let end = end.ok_or(Error::InvalidParam)?;
        let info = self.shared.device.info();
        Ok(space(&info, self.shared.options.optimal_bytes)[start..end].to_vec())
    }

    fn set_config(&self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        inflight::make(asked).map_err(|error| Error::ReqHandlerError(io::Error::other(error)))
    }

    fn set_inflight_fd(&self, told: &VhostUserInflight, file: File) -> Result<()> {
        let tables = inflight::map(told, file);
        let tables = tables.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        let mut tables = tables.into_iter();
        for vring in &self.vrings {
            vring.in_flight.replace(tables.next());
        }
        Ok(())
    }

    fn get_max_mem_slots(&self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(
        &self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
