//! Control commands, one function each.

use std::fs::OpenOptions;
use std::io;
use std::rc::Rc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::abi::{Control, ControlHeader, DeviceInfo, Parameters};
use super::error::UblkError;
use crate::ring::ControlRing;
use crate::ring::Ring;

const CONTROL_DEVICE: &str = "/dev/ublk-control";

/// The driver's control device, for users who may create disks.
pub(super) struct Driver {
    ring: ControlRing,
}

impl Driver {
    pub(super) fn open(ring: &Ring) -> Result<Self, UblkError> {
        let opened = OpenOptions::new().read(true).write(true).open(CONTROL_DEVICE);
        let device = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::Forbidden,
            _ => UblkError::Open { path: CONTROL_DEVICE.into(), error },
        })?;
        let ring = ControlRing::new(ring, Rc::new(device.into())).map_err(UblkError::Ring)?;
        Ok(Self { ring })
    }

    /// The driver's features.
    pub(super) async fn features(&mut self) -> Result<u64, UblkError> {
        match self.exchange(Control::GetFeatures, u32::MAX, 0, 0_u64).await {
            Ok(features) => Ok(features),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(UblkError::Forbidden)
            }
            // The features were returned in the command.
            Err(_) => Ok(0),
        }
    }

    /// The device with a number, if it exists.
    pub(super) async fn info(&mut self, id: u32) -> Result<Option<DeviceInfo>, UblkError> {
        match self.exchange(Control::GetDeviceInfo, id, 0, DeviceInfo::default()).await {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(failure(Control::GetDeviceInfo, id, error)),
        }
    }

    /// Adds a device, with any number that is free for `u32::MAX`; returns it as it has become.
    pub(super) async fn add(&mut self, info: DeviceInfo) -> Result<DeviceInfo, UblkError> {
        let id = info.device;
        let added = self.exchange(Control::AddDevice, id, 0, info).await;
        added.map_err(|error| match error.raw_os_error() {
            Some(libc::EEXIST) => UblkError::Foreign { id },
            Some(libc::EPERM | libc::EACCES) => UblkError::Forbidden,
            _ => failure(Control::AddDevice, id, error),
        })
    }

    pub(super) async fn set_parameters(
        &mut self,
        id: u32,
        parameters: Parameters,
    ) -> Result<(), UblkError> {
        let set = self.exchange(Control::SetParameters, id, 0, parameters).await;
        set.map(drop).map_err(|error| failure(Control::SetParameters, id, error))
    }

    pub(super) async fn parameters(&mut self, id: u32) -> Result<Parameters, UblkError> {
        let length = u32::try_from(size_of::<Parameters>()).expect("112 bytes");
        let asked = Parameters { length, ..Parameters::default() };
        let got = self.exchange(Control::GetParameters, id, 0, asked).await;
        got.map_err(|error| failure(Control::GetParameters, id, error))
    }

    /// A command about a device that returns nothing; `data` is its argument.
    pub(super) async fn command(
        &mut self,
        what: Control,
        id: u32,
        data: u64,
    ) -> Result<(), UblkError> {
        let done = self.send(what, id, data, Box::default()).await;
        done.map(drop).map_err(|error| failure(what, id, error))
    }

    /// Sends a structure, and returns it as changed by the driver.
    async fn exchange<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
        what: Control,
        id: u32,
        data: u64,
        value: T,
    ) -> io::Result<T> {
        let bytes = self.send(what, id, data, value.as_bytes().into()).await?;
        Ok(T::read_from_bytes(&bytes).expect("the length it had"))
    }

    async fn send(
        &mut self,
        what: Control,
        device: u32,
        data: u64,
        buffer: Box<[u8]>,
    ) -> io::Result<Box<[u8]>> {
        let length = u16::try_from(buffer.len()).expect("small structures");
        let build = |address| {
            let header = ControlHeader {
                device,
                queue: u16::MAX,
                length,
                address: if length == 0 { 0 } else { address },
                data,
                path_length: 0,
                reserved: [0; 3],
            };
            let mut command = [0; 80];
            command[..size_of::<ControlHeader>()].copy_from_slice(header.as_bytes());
            command
        };
        self.ring.command(what.code(), buffer, build).await
    }
}

fn failure(what: Control, id: u32, error: io::Error) -> UblkError {
    let id = if id == u32::MAX { "new".to_owned() } else { id.to_string() };
    UblkError::Control { id, purpose: what.purpose(), error }
}
