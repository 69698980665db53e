//! Classes of blocks: by the size of the request that wrote them, and by expected lifetime. Each
//! has open segments of its own.

/// The request sizes that a lane serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum ChunkClass {
    /// Lone small requests, written in narrow stripes. No request has this class by its size.
    Narrow,
    /// Requests below a threshold, trims, and all requests without a lane of their own.
    Small,
    /// Requests of the threshold or more, if there is a lane for them.
    Large,
}

/// The expected lifetime of blocks. A segment whose blocks die together is cheap to reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum Lifetime {
    /// Blocks that are overwritten soon, or of unknown lifetime.
    #[default]
    Short,
    /// Blocks that are expected to stay valid for long.
    Long,
}

/// The purpose of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) struct Class {
    /// Size of its requests.
    pub chunk: ChunkClass,
    /// Expected lifetime of its blocks.
    pub lifetime: Lifetime,
}

impl Class {
    pub(in crate::log) const ALL: [Self; 4] = [
        Self { chunk: ChunkClass::Small, lifetime: Lifetime::Short },
        Self { chunk: ChunkClass::Small, lifetime: Lifetime::Long },
        Self { chunk: ChunkClass::Large, lifetime: Lifetime::Short },
        Self { chunk: ChunkClass::Large, lifetime: Lifetime::Long },
    ];

    pub(in crate::log) const fn index(self) -> usize {
        let chunk = match self.chunk {
            ChunkClass::Narrow => panic!("nothing waits for narrow stripes"),
            ChunkClass::Small => 0,
            ChunkClass::Large => 1,
        };
        chunk * 2 + self.lifetime as usize
    }
}
