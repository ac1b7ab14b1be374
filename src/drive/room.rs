//! How many tasks SLURM takes where a limit on submitted jobs is felt: no call tells what is left of it.

/// What refusals and acceptances have taught.
///
/// A refused array leaves an entry in the sweep log and costs an sbatch, so each answer is made the most of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Room {
    /// No refusal yet.
    #[default]
    Unknown,
    /// Fewer tasks than so many fit, as that many were refused.
    Below(u32),
    /// There was no room when so many of ours were queued or running.
    Full(u32),
    /// One more was taken than there was room for: others may have left, or the limit was raised.
    Growing(u32),
}

impl Room {
    /// The largest array that is worth a try while `queued` tasks are queued or running; none: any.
    pub(super) fn fits(self, queued: u32) -> Option<u32> {
        match self {
            Self::Unknown => None,
            Self::Below(refused) => Some((refused / 2).max(1)),
            Self::Full(at) => Some(at.saturating_sub(queued).max(1)),
            Self::Growing(next) => Some(next),
        }
    }

    /// Whether the next try is worth making at once.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Below(_) | Self::Growing(_))
    }

    /// Learns that an array was taken beside `queued` other tasks; answers whether there is no room for more now.
    pub(super) fn taken(&mut self, tasks: u32, queued: u32) -> bool {
        let now = queued.saturating_add(tasks);
        *self = match *self {
            Self::Unknown => Self::Unknown,
            Self::Below(refused) if refused.saturating_sub(tasks) > 1 => {
                Self::Below(refused - tasks)
            }
            Self::Below(_) => Self::Full(now),
            Self::Full(at) if now > at => Self::Growing(tasks.saturating_mul(2)),
            Self::Full(at) => Self::Full(at),
            Self::Growing(_) => Self::Growing(tasks.saturating_mul(2)),
        };
        matches!(*self, Self::Full(at) if now >= at)
    }

    /// Learns that an array was refused beside `queued` other tasks; answers whether there is no room at all now.
    pub(super) fn refused(&mut self, tasks: u32, queued: u32) -> bool {
        *self = if tasks <= 1 { Self::Full(queued) } else { Self::Below(tasks) };
        tasks <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues what there is room for, as a watcher does between two waits: (tasks queued now, refusals).
    fn fill(room: &mut Room, mut queued: u32, wanted: u32, limit: u32) -> (u32, u32) {
        let mut refusals = 0;
        for _ in 0..100 {
            let tasks = (wanted - queued).min(room.fits(queued).unwrap_or(u32::MAX));
            let full = if queued + tasks > limit {
                refusals += 1;
                room.refused(tasks, queued)
            } else {
                queued += tasks;
                room.taken(tasks, queued - tasks)
            };
            if full || queued == wanted {
                return (queued, refusals);
            }
        }
        panic!("it does not end: {room:?}");
    }

    #[test]
    fn all_the_room_is_found_with_few_refusals() {
        for limit in 0..100 {
            let (queued, refusals) = fill(&mut Room::default(), 0, 1000, limit);
            assert_eq!(queued, limit);
            assert!(refusals <= 14, "{refusals} at a limit of {limit}");
        }
    }

    #[test]
    fn where_no_limit_is_felt_one_array_takes_all() {
        let mut room = Room::default();
        assert_eq!(fill(&mut room, 0, 50, 50), (50, 0));
        assert_eq!(room, Room::Unknown);
    }

    #[test]
    fn what_has_ended_is_replaced_without_another_refusal() {
        let mut room = Room::default();
        fill(&mut room, 0, 1000, 20);
        for ended in [1, 7, 20, 3] {
            assert_eq!(fill(&mut room, 20 - ended, 1000, 20), (20, 0), "{ended} have ended");
        }
    }

    #[test]
    fn room_that_others_leave_or_take_is_noticed() {
        let mut room = Room::default();
        fill(&mut room, 0, 1000, 20);
        assert_eq!(fill(&mut room, 20, 1000, 20), (20, 1), "one more is tried in vain");
        let (queued, refusals) = fill(&mut room, 20, 1000, 300);
        assert!(queued == 300 && refusals <= 9, "{refusals}");
        let (queued, refusals) = fill(&mut room, 250, 1000, 260);
        assert!(queued == 260 && refusals <= 6, "{refusals}");
        assert_eq!(fill(&mut room, 260, 1000, 10_000), (1000, 0));
    }
}
