-- Messages that wait for the runs of a conversation, and how often they have changed. Deleted with the conversation.

ALTER TABLE conversations ADD COLUMN queue TEXT;
ALTER TABLE conversations ADD COLUMN queue_version BIGINT NOT NULL DEFAULT 0;

CREATE INDEX conversations_with_queue ON conversations (user_id, conversation_id) WHERE queue IS NOT NULL;

PRAGMA user_version = 17;
