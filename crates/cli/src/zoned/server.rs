//! The server of an array with a zoned volume, for its clients.

use super::found::Found;
use crate::control::{Client, socket_of};
use crate::error::CliError;
use crate::start::{Contact, contact_at};

impl Found {
    /// Who serves the volume.
    pub(crate) fn contact(&self) -> Contact {
        let socket = socket_of(self.membership.config.array);
        let membership = Some((&*self.membership.config.name, &*self.membership.members));
        contact_at(&socket, &self.drives, &self.survey.drives, membership)
    }

    /// The server of these drives, for verbs that change something; `None` if nobody serves them.
    ///
    /// # Errors
    /// If the server does not answer, or serves other drives.
    pub(crate) fn client(&self) -> Result<Option<Client>, CliError> {
        match self.contact() {
            Contact::Nobody => Ok(None),
            Contact::Server(client) => Ok(Some(client)),
            Contact::Former(_, error) | Contact::Copies(error) | Contact::Silent(error) => {
                Err(error)
            }
        }
    }
}
