//! The volume of a server, as a zoned drive.
//!
//! A command is a request of its own to the control socket, and is answered before `submit`
//! returns: the process of a command has nothing else to do.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zoneweave_zoned::{
    BLOCK_BYTES, Command, Completion, Geometry, Outcome, Payload, Status, ZonedDevice, completion,
};

use crate::control::{Client, Request, Shape, ZoneAnswer, ZoneCommand};
use crate::error::CliError;

/// The zoned volume of a server.
pub(crate) struct RemoteVolume {
    socket: PathBuf,
    geometry: Geometry,
    /// Why the server did not answer a command.
    failure: RefCell<Option<CliError>>,
}

impl RemoteVolume {
    /// # Errors
    /// If the server does not answer.
    pub(crate) fn new(client: Client) -> Result<Self, CliError> {
        let socket = client.socket().to_owned();
        let shape: Shape = parsed(client.ask(&Request::Shape, |_| {})?)?;
        Ok(Self { socket, geometry: shape.geometry(), failure: RefCell::default() })
    }

    /// The outcome of work on the volume: where the server did not answer, that is the error.
    pub(crate) fn outcome<T>(&self, done: Result<T, CliError>) -> Result<T, CliError> {
        match self.failure.take() {
            Some(error) => Err(error),
            None => done,
        }
    }

    fn run(&self, command: Command) -> Outcome {
        let (command, payload) = ZoneCommand::of(command)?;
        exchange(&self.socket, command, &payload).unwrap_or_else(|error| {
            self.failure.replace(Some(error));
            Err(Status::InternalError)
        })
    }
}

/// Sends a command and its data, and receives its outcome.
fn exchange(socket: &Path, command: ZoneCommand, payload: &Payload) -> Result<Outcome, CliError> {
    let gone =
        || CliError::ServerBroken { socket: socket.to_owned(), problem: "it has ended".to_owned() };
    let client = Client::connect(socket)?.ok_or_else(gone)?;
    let length = |answer: &ZoneAnswer| match answer.status {
        None => command.read_blocks() as usize * BLOCK_BYTES,
        Some(_) => 0,
    };
    let request = Request::Zones { command };
    let (answer, data) = client.exchange(&request, &payload.data, |result| {
        let answer: ZoneAnswer = parsed(result)?;
        let length = length(&answer);
        Ok((answer, length))
    })?;
    Ok(answer.outcome(command, Bytes::from(data)))
}

fn parsed<T: serde::de::DeserializeOwned>(answer: serde_json::Value) -> Result<T, CliError> {
    serde_json::from_value(answer).map_err(|error| CliError::System {
        action: "read the server's answer",
        error: error.into(),
    })
}

impl ZonedDevice for RemoteVolume {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        let (responder, completion) = completion();
        responder.complete(self.run(command));
        completion
    }
}
