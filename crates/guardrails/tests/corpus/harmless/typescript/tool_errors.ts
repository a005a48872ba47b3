import { ToolError } from "coracle";
import { send_message } from "servers/mail";

try {
  await send_message({ to: "ann@example.org", subject: "Hi", body: "Hello" });
} catch (error) {
  if (error instanceof ToolError && error.retryable) console.log("again later:", error.code);
  else throw error;
}
