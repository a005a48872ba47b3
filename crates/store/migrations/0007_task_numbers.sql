-- A session counts its tasks by itself, so that beginning one is a single statement.

CREATE TRIGGER task_begins AFTER INSERT ON tasks BEGIN
    UPDATE sessions SET tasks = NEW.number, last_used = NEW.started_at
    WHERE user_id = NEW.user_id AND session_id = NEW.session_id;
END;

PRAGMA user_version = 7;
