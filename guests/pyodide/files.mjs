// Folders of the process in Python's file system, at the same paths.

import { existsSync, statSync } from "node:fs";

/** Mounts what is there; a text when that is not possible. Folders inside of others come with them. */
export function mountFolders(FS, folders) {
  const [workspace, ...others] = folders;
  if (!isFolder(workspace)) return `the workspace ${workspace} is no folder`;
  const mounted = [];
  for (const folder of [workspace, ...others.filter(isFolder)]) {
    if (mounted.some((outer) => folder === outer || folder.startsWith(`${outer}/`))) continue;
    try {
      FS.mkdirTree(folder);
      FS.mount(FS.filesystems.NODEFS, { root: folder }, folder);
    } catch (error) {
      return `cannot mount ${folder}: ${error?.message ?? error}`;
    }
    mounted.push(folder);
  }
  return "";
}

const isFolder = (path) => path.startsWith("/") && path !== "/" && existsSync(path) && statSync(path).isDirectory();
