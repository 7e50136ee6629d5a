// The WebSocket: one request at a time, and after its response the newest one, so that none waits behind another.

import { unpack } from "./wire.js";

const RETRY = 2000;
const CLOSED = {
  4001: "The viewer has too many open pages. Close some of them; this page then reconnects automatically.",
  4002: "The session ended because the page was not used for a while. Rotate the shape or change a setting to continue.",
  0: "The page is not connected: the viewer was stopped, or has too many connections. " +
    "Start it again with qec view; this page then reconnects automatically.",
};
const IDLE = 4002;

export class Link {
  // `describe()` returns the current request; `on` has the callbacks opened, response, error and closed.
  constructor(describe, on) {
    this.describe = describe;
    this.on = on;
    this.id = 0;
    this.waiting = false;
    this.pending = false;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/socket`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.receive(unpack(event.data));
    this.socket.onclose = ({ code }) => {
      this.waiting = false;
      this.idle = code === IDLE;
      this.on.closed(CLOSED[code] ?? CLOSED[0]);
      if (!this.idle) setTimeout(() => this.open(), RETRY);
    };
  }

  get settled() {
    return !this.waiting && !this.pending && this.socket.readyState === WebSocket.OPEN;
  }

  request() {
    this.pending = true;
    if (this.idle) {
      this.idle = false;
      this.open();
    }
    this.send();
  }

  send() {
    if (this.waiting || !this.pending || this.socket.readyState !== WebSocket.OPEN) return;
    const request = this.describe();
    if (!request) return;
    this.pending = false;
    this.waiting = true;
    this.id += 1;
    this.sent = request;
    this.socket.send(JSON.stringify({ id: this.id, ...request }));
  }

  receive({ header, arrays }) {
    if (header.session) {
      this.on.opened(header.session);
      this.request();
      return;
    }
    if (header.id === undefined || header.id === this.id) this.waiting = false;
    if (header.error) this.on.error(header.error);
    else this.on.response(header, arrays, this.sent);
    this.send();
  }
}
