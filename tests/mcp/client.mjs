// Belljar's MCP server as the official TypeScript SDK sees it.
//
//     client.mjs SDK stdio PROGRAM
//     client.mjs SDK http URL TOKEN
//
// SDK is the folder of @modelcontextprotocol/sdk. The SDK itself checks every structured content
// against the schema of its tool. Each check prints its name; the first that fails ends the program.

import assert from 'node:assert/strict';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const [sdk, transport, place, token] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(sdk, 'dist/esm', file)));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');

async function connected() {
  const client = new Client({ name: 'belljar-test', version: '1' });
  if (transport === 'stdio') {
    const { BELLJAR_HOME, PATH } = process.env;
    const env = { BELLJAR_HOME, PATH };
    await client.connect(new StdioClientTransport({ command: place, args: ['mcp'], env }));
  } else {
    const requestInit = { headers: { Authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(place), { requestInit }));
  }
  // From here on the client knows the schemas of all results.
  client.tools = (await client.listTools()).tools;
  return client;
}

const text = (result) => result.content.filter((one) => one.type === 'text').map((one) => one.text).join('\n');

async function good(client, name, args = {}, options = undefined) {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  assert.ok(!result.isError, `${name}: ${text(result)}`);
  return result.structuredContent;
}

async function bad(client, name, args = {}) {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(result.isError, `${name} has worked: ${text(result)}`);
  return text(result);
}

const checks = {
  async every_tool_is_told(client) {
    assert.equal(client.getServerVersion().name, 'belljar');
    assert.match(client.getInstructions(), /create_session/);
    assert.equal(client.tools.length, 13);
    for (const tool of client.tools) {
      assert.ok(tool.description && tool.outputSchema, tool.name);
      assert.equal(tool.annotations.openWorldHint, false);
    }
  },

  async every_tool_can_be_called(client) {
    assert.deepEqual(await good(client, 'run_python_code', { code: 'print(6 * 7)' }), { success: true, status: 'ok', output: '42\n' });
    const { session_id } = await good(client, 'create_session', { language: 'python' });
    const result = await good(client, 'execute_code', { session_id, code: 'x = [1, 2]\nx' });
    assert.deepEqual(result.result.json, [1, 2]);
    const { variable } = await good(client, 'get_variable', { session_id, name: 'x' });
    assert.deepEqual(variable.json, [1, 2]);
    await good(client, 'write_file', { session_id, path: 'a/f', content: 'text' });
    assert.equal((await good(client, 'read_file', { session_id, path: 'a/f' })).content, 'text');
    assert.equal((await good(client, 'list_files', { session_id })).total, 2);
    const fork = await good(client, 'fork_session', { session_id });
    const { sessions } = await good(client, 'list_sessions');
    assert.deepEqual(sessions.map((one) => one.session_id), [session_id, fork.session_id]);
    assert.equal((await good(client, 'cancel_execution', { session_id })).cancelled, 0);
    assert.equal((await good(client, 'list_runtimes')).runtimes.length, 2);
    assert.equal((await good(client, 'validate_code', { code: 'x =' })).valid, false);
    await good(client, 'destroy_session', { session_id });
    assert.match(await bad(client, 'destroy_session', { session_id }), /no session/);
  },

  async errors_are_told(client) {
    const failed = await client.callTool({ name: 'execute_code', arguments: { code: '1 / 0' } });
    assert.ok(failed.isError);
    assert.equal(failed.structuredContent.error.name, 'ZeroDivisionError');
    assert.match(await bad(client, 'execute_code', { code: 1 }), /argument `code`.*\nhint:/);
    await assert.rejects(client.callTool({ name: 'nothing', arguments: {} }), /Unknown tool: nothing/);
    const timed = await client.callTool({ name: 'execute_code', arguments: { code: 'while (true);', language: 'javascript', timeout: 0.3 } });
    assert.equal(timed.structuredContent.status, 'timeout');
  },

  async images_are_images(client) {
    const code = "class P:\n    def _repr_jpeg_(self): return b'\\xff\\xd8\\xff'\nP()";
    const result = await client.callTool({ name: 'execute_code', arguments: { code } });
    const images = result.content.filter((one) => one.type === 'image');
    assert.deepEqual(images, [{ type: 'image', mimeType: 'image/jpeg', data: '/9j/' }]);
  },

  async progress_is_told(client) {
    const told = [];
    const code = "import time\nfor i in range(6):\n    print('line', i, flush=True)\n    time.sleep(0.1)";
    const onprogress = (progress) => told.push(progress);
    await good(client, 'execute_code', { code }, { onprogress });
    assert.ok(told.length >= 2 && told[0].message.includes('line'), JSON.stringify(told));
    for (let i = 1; i < told.length; i++) assert.ok(told[i].progress > told[i - 1].progress);
  },

  async execution_can_be_cancelled(client) {
    const { session_id } = await good(client, 'create_session');
    await good(client, 'execute_code', { session_id, code: 'x = 7' });
    const unwanted = new AbortController();
    const running = good(client, 'execute_code', { session_id, code: 'while True: pass' }, { signal: unwanted.signal });
    await sleep(500);
    unwanted.abort('not wanted any more');
    await assert.rejects(running);
    const begun = Date.now();
    assert.equal((await good(client, 'execute_code', { session_id, code: 'x' })).result.json, 7);
    assert.ok(Date.now() - begun < 10_000);
    const stopped = client.callTool({ name: 'execute_code', arguments: { session_id, code: 'while True: pass' } });
    await sleep(300);
    assert.equal((await good(client, 'cancel_execution')).cancelled, 1);
    assert.equal((await stopped).structuredContent.status, 'cancelled');
    assert.equal((await good(client, 'execute_code', { session_id, code: 'x' })).result.json, 7);
  },

  async clients_do_not_see_each_other(client) {
    await good(client, 'create_session', { session_id: 'mine' });
    await good(client, 'execute_code', { session_id: 'mine', code: 'secret = 1' });
    const other = await connected();
    assert.deepEqual(await good(other, 'list_sessions'), { sessions: [] });
    assert.match(await bad(other, 'execute_code', { session_id: 'mine', code: 'secret' }), /no session/);
    await good(other, 'create_session', { session_id: 'mine' });
    assert.match(await bad(other, 'execute_code', { session_id: 'mine', code: 'secret' }), /NameError/);
    await other.close();
    assert.equal((await good(client, 'execute_code', { session_id: 'mine', code: 'secret' })).result.json, 1);
  },
};

for (const [name, check] of Object.entries(checks)) {
  const client = await connected();
  await check(client);
  await client.close();
  console.log('ok', name);
}
