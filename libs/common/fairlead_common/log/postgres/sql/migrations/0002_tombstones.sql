-- Tombstones are removed after minutes, and a reader that may have missed one is told so.

-- Each round notes how far tombstones cover nothing any more (`tombstones`), and a later one removes
-- them up to there.
ALTER TABLE fairlead_log.parts ADD COLUMN round bigint NOT NULL DEFAULT 0;
-- Tombstones below it have been removed, the last of them as they were noted in this round.
ALTER TABLE fairlead_log.parts ADD COLUMN buried bigint NOT NULL DEFAULT 0;
ALTER TABLE fairlead_log.parts ADD COLUMN buried_round bigint NOT NULL DEFAULT 0;
