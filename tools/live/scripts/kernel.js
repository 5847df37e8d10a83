/* The kernel of a page, started when its first cell runs and ended when the page is left. It is talked
   to over the Jupyter server's REST interface and its WebSocket, messages as JSON; for this little no
   library is needed. */

async function ask(address, method, body, options = {}) {
  const headers = { Authorization: `token ${TOKEN}`, "Content-Type": "application/json" };
  const answer = await fetch(address, { method, headers, body: body && JSON.stringify(body), ...options });
  if (!answer.ok) throw new Error(say("the server answers {status}", answer));
  return answer.status === 204 ? null : answer.json();
}

class Kernel {
  constructor(lost) {
    this.lost = lost;  // called with the reason when it has gone by itself
    this.waiting = new Map();  // requests by their ids
    this.session = crypto.randomUUID();
  }

  async start() {
    this.id = (await ask("/api/kernels", "POST", { name: "python3", path: "" })).id;
    await this.connect();
  }

  async connect() {
    const socket = new WebSocket(
      `ws://${location.host}/api/kernels/${this.id}/channels?session_id=${this.session}`);
    this.socket = socket;
    await new Promise((done, fail) => {
      socket.onopen = done;
      socket.onerror = () => fail(new Error(say("no connection to the kernel")));
    });
    socket.onmessage = ({ data }) => typeof data === "string" && this.hear(JSON.parse(data));
    socket.onclose = () => socket === this.socket && this.fail(say("the server has ended"));
    await this.request("kernel_info_request", {});
  }

  /** Send a request; resolves with its reply when the kernel has said all that belongs to it. */
  request(type, content, hear = () => {}) {
    const header = { msg_id: crypto.randomUUID(), session: this.session, username: "reader",
      date: new Date().toISOString(), msg_type: type, version: "5.3" };
    return new Promise((done, fail) => {
      this.waiting.set(header.msg_id, { done, fail, hear, reply: null, idle: false });
      this.socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content,
        channel: "shell", buffers: [] }));
    });
  }

  hear({ header, parent_header: parent, content }) {
    const state = header.msg_type === "status" && content.execution_state;
    if (state === "restarting" || state === "dead") return this.fail(say("the kernel has died"));
    const request = this.waiting.get(parent.msg_id);
    if (!request) return;
    if (header.msg_type.endsWith("_reply")) request.reply = content;
    else if (state) request.idle ||= state === "idle";
    else request.hear(header.msg_type, content);
    if (request.reply && request.idle) {
      this.waiting.delete(parent.msg_id);
      request.done(request.reply);
    }
  }

  fail(reason) {
    this.cancel(reason);
    this.lost(reason);
  }

  cancel(reason) {
    for (const { fail } of this.waiting.values()) fail(new Error(reason));
    this.waiting.clear();
  }

  execute(code, hear) {
    return this.request("execute_request", { code, silent: false, store_history: true,
      user_expressions: {}, allow_stdin: false, stop_on_error: true }, hear);
  }

  interrupt() { return ask(`/api/kernels/${this.id}/interrupt`, "POST"); }

  /** End it, even while the page is being left. */
  end() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.cancel(say("the kernel was ended"));
    return this.id ? ask(`/api/kernels/${this.id}`, "DELETE", null, { keepalive: true }) : null;
  }
}
