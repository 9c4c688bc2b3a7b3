/** All pages of the dashboard. */
export const pages = [
  'overview',
  'languages',
  'nodes',
  'sessions',
  'jobs',
  'waiting',
  'tenants',
  'instances',
  'pools',
  'configuration',
];

/** visit shows every page and the details of what is listed, and checks each. */
export async function visit(tab, name, check) {
  for (const page of [...pages, ...(await details(tab))]) {
    await tab.goto(page);
    await tab.settled();
    await check(page, `${name}, ${page}`);
  }
}

/** details returns the pages of one node, job and session, of those that the caller sees. */
async function details(tab) {
  const read = async (path) => (await tab.api(path)).body;
  const [jobs, sessions] = [await read('v1/jobs?limit=1'), await read('v1/sessions?limit=1')];
  const nodes = await read('v1/nodes/table?limit=1&search=oslo');
  return [
    ...nodes.rows.map((n) => 'nodes/' + n.node_id),
    ...jobs.jobs.map((j) => 'jobs/' + j.job_id),
    ...sessions.sessions.map((s) => 'sessions/' + encodeURIComponent(s.session_id)),
    'search?q=o',
  ];
}
