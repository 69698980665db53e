//! Publication of zone records: one task a zone, as long as it has something new.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::ZoneId;

use super::core::Drive;
use super::error::DriveFailure;
use super::zone_queue::Publication;

impl Drive {
    /// Brings the erase counts of a zone into the file, where the drive keeps any.
    pub(super) async fn store_wear(&self, zone: ZoneId) {
        let encoded = match self.controller.borrow().wear() {
            Some(wear) => self.layout.encode_wear(zone, wear.zone(zone)),
            None => None,
        };
        let Some((position, bytes)) = encoded else { return };
        let bytes = vec![Bytes::from(bytes)];
        if let Err(error) = self.ring.write_all_at(&self.file, bytes, position).await {
            self.die(DriveFailure::RecordLost(error));
        }
    }

    /// Starts to publish the zone's record if it changed.
    pub(super) fn publish(self: &Rc<Self>, zone: ZoneId) {
        if self.is_dead() {
            return;
        }
        let next = self.zone(zone).queue.borrow_mut().next_publication();
        if let Some(publication) = next {
            self.handle.spawn("drive record", self.clone().run_publisher(zone, publication));
        }
    }

    /// Publishes until nothing is left to be said.
    async fn run_publisher(self: Rc<Self>, zone: ZoneId, first: Publication) {
        let mut next = Some(first);
        while let Some(publication) = next {
            self.tickets.redeemed(publication.after).await;
            if self.is_dead() {
                return;
            }
            let Publication { record, sequence, .. } = publication;
            let bytes = self.layout.encode_record(zone, sequence, record);
            let position = self.layout.record_position(zone, sequence);
            let record = vec![Bytes::from_owner(bytes)];
            if let Err(error) = self.ring.write_all_at(&self.file, record, position).await {
                self.die(DriveFailure::RecordLost(error));
            }
            if self.is_dead() {
                return;
            }
            let mut queue = self.zone(zone).queue.borrow_mut();
            self.tickets.redeem(&queue.is_published(publication));
            next = queue.next_publication();
            drop(queue);
            self.zone(zone).changed.open();
        }
    }
}
