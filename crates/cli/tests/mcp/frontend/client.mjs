// The official TypeScript client; see client.py. `CLIENT` is the folder of the library.

const folder = process.env.CLIENT;
const { Client, StreamableHTTPClientTransport } = await import(`${folder}/dist/index.mjs`);
const { StdioClientTransport } = await import(`${folder}/dist/stdio.mjs`);

let text = '';
for await (const chunk of process.stdin) text += chunk;
const plan = JSON.parse(text);
const asked = [];
const progress = [];

const client = new Client(
    { name: 'test', version: '1' },
    {
        capabilities: plan.answer ? { elicitation: { form: {} } } : {},
        versionNegotiation: { mode: plan.mode === 'legacy' ? 'legacy' : { pin: plan.mode } },
    },
);
if (plan.answer) {
    client.setRequestHandler('elicitation/create', async request => {
        asked.push(request.params);
        return plan.answer[Math.min(asked.length, plan.answer.length) - 1];
    });
}
const { server } = plan;
const transport = server.url
    ? new StreamableHTTPClientTransport(new URL(server.url))
    : new StdioClientTransport({ command: server.command, args: server.args, env: { ...process.env, ...server.env } });
await client.connect(transport);

async function act(step) {
    switch (step.do) {
        case 'tools':
            return (await client.listTools()).tools.map(tool => tool.name);
        case 'prompts':
            return (await client.listPrompts()).prompts.map(prompt => prompt.name);
        case 'resources':
            return (await client.listResources()).resources.map(resource => resource.uri);
        case 'read':
            return await client.readResource({ uri: step.uri });
        case 'call':
            return await client.callTool(
                { name: step.name, arguments: step.arguments ?? {} },
                { onprogress: told => progress.push(told.message) },
            );
    }
}

for (const step of plan.steps) {
    asked.length = 0;
    progress.length = 0;
    let outcome;
    try {
        outcome = { value: await act(step) };
    } catch (error) {
        outcome = { error: String(error) };
    }
    console.log(JSON.stringify({ ...outcome, asked, progress }));
}
await client.close();
